package main

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"example.com/a2a-client/gen/a2a"
)

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

// textOf is the text that an event adds to an artifact.
func textOf(event *a2a.StreamResponse) string {
	var content strings.Builder
	for _, part := range event.GetArtifactUpdate().GetArtifact().GetParts() {
		content.WriteString(part.GetText())
	}
	return content.String()
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
