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

// retried makes a call again while the service is UNAVAILABLE or the caller too fast.
//
// A message that is sent again under its message id starts nothing a second time, so that this is safe for SendMessage too.
func retried[T any](ctx context.Context, call func() (T, error)) (T, error) {
	var tries patience
	for {
		answer, err := call()
		if err == nil {
			return answer, nil
		}
		if err := tries.wait(ctx, err); err != nil {
			return answer, err
		}
	}
}

// patience is how often a call has failed in a row.
type patience struct{ failures int }

// wait returns when the call should be made again, or with the error that ends the attempts: one that does not pass by
// itself, one too many, or the end of ctx.
func (p *patience) wait(ctx context.Context, err error) error {
	p.failures++
	asked := retryDelay(err)
	// A limit that is reached passes by itself where the service says when.
	passes := status.Code(err) == codes.Unavailable || status.Code(err) == codes.ResourceExhausted && asked > 0
	if !passes || p.failures == attempts {
		return err
	}
	longest := firstWait << p.failures
	pause := max(longest/4+rand.N(longest/2), asked)
	log.Printf("%v, once more in %v", code.Code(status.Code(err)), pause.Round(time.Millisecond))
	select {
	case <-ctx.Done():
		return err
	case <-time.After(pause):
		return nil
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
