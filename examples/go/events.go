package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	"example.com/a2a-client/gen/a2a"
)

const (
	eventSequence = "urn:a2a-grpc:extension:event-sequence:v1"
	lastEventID   = "last-event-id"
)

// follow sends a message and yields the events of its stream, each once and in order.
//
// A stream that breaks is taken up behind its last event: the message is sent again under its id, which starts nothing a
// second time, with the number of that event. There is no deadline, since a task may take its time.
func follow(ctx context.Context, called *agent, message *a2a.Message) iter.Seq2[*a2a.StreamResponse, error] {
	ctx = metadata.AppendToOutgoingContext(ctx, "a2a-extensions", eventSequence)
	return func(yield func(*a2a.StreamResponse, error) bool) {
		ctx, leave := context.WithCancel(ctx)
		defer leave()
		var tries patience
		var seen int64
		for {
			events, err := called.SendStreamingMessage(
				metadata.AppendToOutgoingContext(ctx, lastEventID, strconv.FormatInt(seen, 10)),
				&a2a.SendMessageRequest{Tenant: called.tenant, Message: message},
			)
			for err == nil {
				var event *a2a.StreamResponse
				if event, err = events.Recv(); err != nil {
					break
				}
				// A stream that goes on begins with the task as it is known already, or, if events are no longer
				// there, as it stands now; then its number is a new one.
				current := number(event)
				if current != 0 && current <= seen {
					continue
				}
				seen, tries = current, patience{}
				if !yield(event, nil) {
					return
				}
			}
			if err == io.EOF {
				return
			}
			if err := tries.wait(ctx, err); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

func printEvent(event *a2a.StreamResponse) {
	switch payload := event.GetPayload().(type) {
	case *a2a.StreamResponse_Task:
		fmt.Println("  task")
	case *a2a.StreamResponse_Message:
		fmt.Println("  message")
	case *a2a.StreamResponse_StatusUpdate:
		fmt.Printf("  %s\n", payload.StatusUpdate.GetStatus().GetState())
	case *a2a.StreamResponse_ArtifactUpdate:
		printArtifact(payload.ArtifactUpdate.GetArtifact())
	}
}

func printArtifact(artifact *a2a.Artifact) {
	var content strings.Builder
	for _, part := range artifact.GetParts() {
		switch part := part.GetContent().(type) {
		case *a2a.Part_Text:
			content.WriteString(part.Text)
		case *a2a.Part_Data:
			fields := part.Data.GetStructValue().GetFields()
			fmt.Fprintf(&content, "%v of %v sentences", fields["kept"].GetNumberValue(), fields["sentences"].GetNumberValue())
		}
	}
	// Only the first chunk of an artifact has its name; all of them have its id.
	name := artifact.GetName()
	if name == "" {
		name = "+"
	}
	fmt.Printf("  %s: %s\n", name, strings.TrimSpace(content.String()))
}

// number is the number of an event in its task, where the extension event-sequence is active.
func number(event *a2a.StreamResponse) int64 {
	var extra *structpb.Struct
	switch payload := event.GetPayload().(type) {
	case *a2a.StreamResponse_Task:
		extra = payload.Task.GetMetadata()
	case *a2a.StreamResponse_StatusUpdate:
		extra = payload.StatusUpdate.GetMetadata()
	case *a2a.StreamResponse_ArtifactUpdate:
		extra = payload.ArtifactUpdate.GetMetadata()
	}
	return int64(extra.GetFields()[eventSequence].GetNumberValue())
}
