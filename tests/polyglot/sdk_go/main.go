// Calls a service with the official Go client and prints what came back: one JSON object, scenario -> lines.
// The judgement is that of test_sdks.py, which knows what each line has to be.
//
// Usage: sdk URL BINDING
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
)

type scenario func(ctx context.Context, client *a2aclient.Client) ([]string, error)

var scenarios = map[string]scenario{
	"send":         send,
	"message":      message,
	"stream":       stream,
	"conversation": conversation,
	"cancel":       cancel,
	"subscribe":    subscribe,
	"list":         list,
	"push":         push,
	"unknown":      unknown,
	"ended":        ended,
	"invalid":      invalid,
	"empty":        empty,
}

func main() {
	ctx, done := context.WithTimeout(context.Background(), 45*time.Second)
	defer done()
	client, err := connect(ctx, os.Args[1], a2a.TransportProtocol(os.Args[2]))
	if err != nil {
		log.Fatal(err)
	}
	outcomes := make(map[string][]string)
	for name, play := range scenarios {
		lines, err := play(ctx, client)
		if err != nil {
			lines = append(lines, "threw: "+err.Error())
		}
		outcomes[name] = lines
	}
	if err := json.NewEncoder(os.Stdout).Encode(outcomes); err != nil {
		log.Fatal(err)
	}
}

func connect(ctx context.Context, url string, binding a2a.TransportProtocol) (*a2aclient.Client, error) {
	card, err := agentcard.DefaultResolver.Resolve(ctx, url)
	if err != nil {
		return nil, err
	}
	options := map[a2a.TransportProtocol]a2aclient.FactoryOption{
		a2a.TransportProtocolGRPC:     a2agrpc.WithGRPCTransport(grpc.WithTransportCredentials(insecure.NewCredentials())),
		a2a.TransportProtocolHTTPJSON: a2aclient.WithRESTTransport(nil),
		a2a.TransportProtocolJSONRPC:  a2aclient.WithJSONRPCTransport(nil),
	}
	return a2aclient.NewFromCard(ctx, card, a2aclient.WithDefaultsDisabled(), options[binding])
}

// request makes a message; a prefix of its id can choose what the agent does.
func request(text, prefix string) *a2a.SendMessageRequest {
	said := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(text))
	said.ID = prefix + "-" + said.ID
	return &a2a.SendMessageRequest{Message: said}
}

func send(ctx context.Context, client *a2aclient.Client) ([]string, error) {
	result, err := client.SendMessage(ctx, request("", "tck-artifact-text"))
	if err != nil {
		return nil, err
	}
	lines := []string{line(result)}
	for _, artifact := range result.(*a2a.Task).Artifacts {
		lines = append(lines, "artifact "+text(artifact.Parts))
	}
	return lines, nil
}

func message(ctx context.Context, client *a2aclient.Client) ([]string, error) {
	result, err := client.SendMessage(ctx, request("msg", "go"))
	if err != nil {
		return nil, err
	}
	return []string{line(result)}, nil
}

func stream(ctx context.Context, client *a2aclient.Client) ([]string, error) {
	var lines []string
	for event, err := range client.SendStreamingMessage(ctx, request("", "tck-stream-artifact-chunked")) {
		if err != nil {
			return lines, err
		}
		lines = append(lines, line(event))
	}
	return lines, nil
}

func conversation(ctx context.Context, client *a2aclient.Client) ([]string, error) {
	asked, err := client.SendMessage(ctx, request("ask", "go"))
	if err != nil {
		return nil, err
	}
	answer := request("the answer", "go")
	answer.Message.TaskID = asked.(*a2a.Task).ID
	answer.Message.ContextID = asked.(*a2a.Task).ContextID
	done, err := client.SendMessage(ctx, answer)
	if err != nil {
		return nil, err
	}
	whole, err := client.GetTask(ctx, &a2a.GetTaskRequest{ID: done.(*a2a.Task).ID})
	if err != nil {
		return nil, err
	}
	lines := []string{line(asked), line(done)}
	for _, said := range whole.History {
		if said.Role == a2a.MessageRoleUser {
			lines = append(lines, "user "+text(said.Parts))
		}
	}
	return lines, nil
}

func start(ctx context.Context, client *a2aclient.Client, what string) (*a2a.Task, error) {
	opening := request(what, "go")
	opening.Config = &a2a.SendMessageConfig{ReturnImmediately: true}
	result, err := client.SendMessage(ctx, opening)
	if err != nil {
		return nil, err
	}
	return result.(*a2a.Task), nil
}

func cancel(ctx context.Context, client *a2aclient.Client) ([]string, error) {
	task, err := start(ctx, client, "hang")
	if err != nil {
		return nil, err
	}
	canceled, err := client.CancelTask(ctx, &a2a.CancelTaskRequest{ID: task.ID})
	if err != nil {
		return nil, err
	}
	_, again := client.CancelTask(ctx, &a2a.CancelTaskRequest{ID: task.ID})
	return []string{line(canceled), failure(again)}, nil
}

func subscribe(ctx context.Context, client *a2aclient.Client) ([]string, error) {
	task, err := start(ctx, client, "slow 1 silent")
	if err != nil {
		return nil, err
	}
	var first, last string
	for event, err := range client.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: task.ID}) {
		if err != nil {
			return nil, err
		}
		last = line(event)
		if first == "" {
			snapshot, _ := event.(*a2a.Task)
			first = fmt.Sprintf("same task %t", snapshot != nil && snapshot.ID == task.ID)
		}
	}
	return []string{first, last}, nil
}

func list(ctx context.Context, client *a2aclient.Client) ([]string, error) {
	var made []a2a.TaskID
	opening := request("", "tck-artifact-text")
	opening.Message.ContextID = a2a.NewContextID()
	for range 3 {
		result, err := client.SendMessage(ctx, opening)
		if err != nil {
			return nil, err
		}
		made = append(made, result.(*a2a.Task).ID)
		next := request("", "tck-artifact-text")
		next.Message.ContextID = opening.Message.ContextID
		opening = next
	}
	page, err := client.ListTasks(ctx, &a2a.ListTasksRequest{ContextID: opening.Message.ContextID, PageSize: 2})
	if err != nil {
		return nil, err
	}
	rest, err := client.ListTasks(ctx, &a2a.ListTasksRequest{
		ContextID: opening.Message.ContextID, PageSize: 2, PageToken: page.NextPageToken,
	})
	if err != nil {
		return nil, err
	}
	lines := []string{fmt.Sprintf("total %d", page.TotalSize)}
	for _, task := range append(page.Tasks, rest.Tasks...) {
		for number, id := range made {
			if id == task.ID {
				lines = append(lines, fmt.Sprintf("task %d", number+1))
			}
		}
	}
	return lines, nil
}

func push(ctx context.Context, client *a2aclient.Client) ([]string, error) {
	task, err := start(ctx, client, "ask")
	if err != nil {
		return nil, err
	}
	hook := a2a.PushConfig{ID: "hook", URL: "https://example.com/hook", Token: "secret"}
	made, err := client.CreateTaskPushConfig(ctx, &a2a.CreateTaskPushConfigRequest{TaskID: task.ID, Config: hook})
	if err != nil {
		return nil, err
	}
	got, err := client.GetTaskPushConfig(ctx, &a2a.GetTaskPushConfigRequest{TaskID: task.ID, ID: "hook"})
	if err != nil {
		return nil, err
	}
	if err := client.DeleteTaskPushConfig(ctx, &a2a.DeleteTaskPushConfigRequest{TaskID: task.ID, ID: "hook"}); err != nil {
		return nil, err
	}
	left, err := client.ListTaskPushConfigs(ctx, &a2a.ListTaskPushConfigRequest{TaskID: task.ID})
	if err != nil {
		return nil, err
	}
	return []string{"made " + made.Config.URL, "got " + got.Config.Token, fmt.Sprintf("left %d", len(left))}, nil
}

func unknown(ctx context.Context, client *a2aclient.Client) ([]string, error) {
	const id = a2a.TaskID("no-such-task")
	_, get := client.GetTask(ctx, &a2a.GetTaskRequest{ID: id})
	_, canceled := client.CancelTask(ctx, &a2a.CancelTaskRequest{ID: id})
	var subscribed error
	for _, err := range client.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: id}) {
		subscribed = err
	}
	follow := request("hello", "go")
	follow.Message.TaskID = id
	_, sent := client.SendMessage(ctx, follow)
	return []string{failure(get), failure(canceled), failure(subscribed), failure(sent)}, nil
}

func ended(ctx context.Context, client *a2aclient.Client) ([]string, error) {
	done, err := client.SendMessage(ctx, request("", "tck-artifact-text"))
	if err != nil {
		return nil, err
	}
	follow := request("more", "go")
	follow.Message.TaskID = done.(*a2a.Task).ID
	_, sent := client.SendMessage(ctx, follow)
	return []string{failure(sent)}, nil
}

func invalid(ctx context.Context, client *a2aclient.Client) ([]string, error) {
	_, err := client.ListTasks(ctx, &a2a.ListTasksRequest{PageToken: "no-such-page"})
	return []string{failure(err)}, nil
}

func empty(ctx context.Context, client *a2aclient.Client) ([]string, error) {
	_, err := client.SendMessage(ctx, &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser)})
	return []string{failure(err)}, nil
}

// line says what an event is.
func line(event a2a.Event) string {
	switch event := event.(type) {
	case *a2a.Task:
		return "task " + string(event.Status.State)
	case *a2a.Message:
		return "message " + text(event.Parts)
	case *a2a.TaskStatusUpdateEvent:
		return "status " + string(event.Status.State)
	case *a2a.TaskArtifactUpdateEvent:
		return "artifact " + text(event.Artifact.Parts)
	default:
		return fmt.Sprintf("%T", event)
	}
}

func text(parts a2a.ContentParts) string {
	var all string
	for _, part := range parts {
		all += part.Text()
	}
	return all
}

// failure names the error that the client takes err for.
func failure(err error) string {
	for name, known := range map[string]error{
		"TaskNotFoundError":         a2a.ErrTaskNotFound,
		"TaskNotCancelableError":    a2a.ErrTaskNotCancelable,
		"UnsupportedOperationError": a2a.ErrUnsupportedOperation,
		"InvalidParamsError":        a2a.ErrInvalidParams,
	} {
		if errors.Is(err, known) {
			return name
		}
	}
	return fmt.Sprintf("unknown: %v", err)
}
