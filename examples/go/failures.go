package main

import (
	"context"
	"log"
	"math/rand/v2"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	attempts  = 6
	firstWait = 200 * time.Millisecond
)

// describe says what an error is: its code, its reason, and the fields that are wrong.
func describe(err error) string {
	failure := status.Convert(err)
	said := []string{code.Code(failure.Code()).String()}
	for _, detail := range failure.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			said = append(said, detail.GetReason(), detail.GetDomain())
		case *errdetails.BadRequest:
			for _, violation := range detail.GetFieldViolations() {
				said = append(said, violation.GetField())
			}
		}
	}
	return strings.Join(said, " ")
}

// retried makes a call again while the service is UNAVAILABLE, until the deadline of ctx or after some attempts.
//
// A message that is sent again under its message id starts nothing a second time, so that this is safe for SendMessage too.
func retried[T any](ctx context.Context, call func() (T, error)) (T, error) {
	wait := firstWait
	for attempt := 1; ; attempt++ {
		answer, err := call()
		if status.Code(err) != codes.Unavailable || attempt == attempts {
			return answer, err
		}
		pause := time.Duration(rand.Int64N(int64(wait))) + wait/2
		if asked := retryDelay(err); asked > pause {
			pause = asked
		}
		log.Printf("UNAVAILABLE, once more in %v", pause)
		select {
		case <-ctx.Done():
			return answer, err
		case <-time.After(pause):
		}
		wait *= 2
	}
}

// retryDelay is how long the service asks to wait.
func retryDelay(err error) time.Duration {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}
