// Calls an agent over gRPC with stubs of its own: discovers it, sends, streams, cancels, and meets errors.
//
// Usage: go run . http://localhost:8080, where `a2a-grpc serve` runs with its demo agent.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"example.com/a2a-client/gen/a2a"
)

const (
	text = "summarize Agents call each other. They speak A2A. Some of them are slow. A2A lets them stream."
	// A call that is not a stream is over by then.
	callTimeout = 30 * time.Second
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: go run . URL")
	}
	if err := run(context.Background(), os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, baseURL string) error {
	card, err := discover(ctx, baseURL)
	if err != nil {
		return err
	}
	chosen, err := grpcInterface(card)
	if err != nil {
		return err
	}
	channel, err := connect(chosen, strings.HasPrefix(baseURL, "https:"))
	if err != nil {
		return err
	}
	defer channel.Close()
	fmt.Printf("agent %s %s\n", card.GetName(), card.GetVersion())

	called := &agent{a2a.NewA2AServiceClient(channel), chosen.GetTenant()}
	for _, step := range []func(context.Context, *agent) error{send, stream, cancelRunning, meetErrors} {
		if err := step(ctx, called); err != nil {
			return errors.New(describe(err))
		}
	}
	return nil
}

// send waits for the outcome of a message.
func send(ctx context.Context, called *agent) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	// Made once: every attempt carries the same message id, so that the work is done once.
	request := &a2a.SendMessageRequest{Tenant: called.tenant, Message: message(text)}
	answer, err := retried(ctx, func() (*a2a.SendMessageResponse, error) { return called.SendMessage(ctx, request) })
	if err != nil {
		return err
	}
	task := answer.GetTask()
	fmt.Printf("send %s\n", task.GetStatus().GetState())
	for _, artifact := range task.GetArtifacts() {
		printArtifact(artifact)
	}
	return nil
}

// stream shows what happens as it happens.
func stream(ctx context.Context, called *agent) error {
	fmt.Println("stream")
	for event, err := range follow(ctx, called, message(text)) {
		if err != nil {
			return err
		}
		printEvent(event)
	}
	return nil
}

// cancelRunning stops a task that would go on for a minute, and sees its stream end.
func cancelRunning(ctx context.Context, called *agent) error {
	var running string
	var last a2a.TaskState
	for event, err := range follow(ctx, called, message("summarize "+strings.Repeat("Agents call each other. ", 3000))) {
		if err != nil {
			return err
		}
		switch {
		case event.GetTask() != nil:
			running = event.GetTask().GetId()
		case event.GetStatusUpdate() != nil:
			last = event.GetStatusUpdate().GetStatus().GetState()
		case running != "":
			// It is at work: stop it, once.
			task, err := cancelTask(ctx, called, running)
			if err != nil {
				return err
			}
			fmt.Printf("cancel %s\n", task.GetStatus().GetState())
			running = ""
		}
	}
	fmt.Printf("  the stream ended with %s\n", last)
	return nil
}

func cancelTask(ctx context.Context, called *agent, id string) (*a2a.Task, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return called.CancelTask(ctx, &a2a.CancelTaskRequest{Tenant: called.tenant, Id: id})
}

// meetErrors makes two mistakes and says what the service answers.
func meetErrors(ctx context.Context, called *agent) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := called.GetTask(ctx, &a2a.GetTaskRequest{Tenant: called.tenant, Id: "no-such-task"})
	fmt.Printf("error %s\n", describe(err))
	empty := &a2a.Message{MessageId: uuid.NewString(), Role: a2a.Role_ROLE_USER}
	_, err = called.SendMessage(ctx, &a2a.SendMessageRequest{Tenant: called.tenant, Message: empty})
	fmt.Printf("error %s\n", describe(err))
	return nil
}

func message(text string) *a2a.Message {
	return &a2a.Message{
		MessageId: uuid.NewString(),
		Role:      a2a.Role_ROLE_USER,
		Parts:     []*a2a.Part{{Content: &a2a.Part_Text{Text: text}}},
	}
}
