package example;

import com.google.lf.a2a.v1.Artifact;
import com.google.lf.a2a.v1.Part;
import com.google.lf.a2a.v1.SendMessageRequest;
import com.google.lf.a2a.v1.StreamResponse;
import com.google.protobuf.Struct;
import com.google.protobuf.Value;
import io.grpc.Metadata;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.MetadataUtils;
import java.util.Iterator;
import java.util.Map;
import java.util.function.Consumer;
import java.util.stream.Collectors;

/** What the events of a stream hold. */
final class Events {
    private static final String EVENT_SEQUENCE = "urn:a2a-grpc:extension:event-sequence:v1";

    private Events() {}

    /**
     * Sends a message and hands out the events of its stream, each once and in order.
     *
     * <p>A stream that breaks is taken up behind its last event: the message is sent again under its id, which starts
     * nothing a second time, with the number of that event. There is no deadline, since a task may take its time.
     */
    static void follow(Agent agent, SendMessageRequest request, Consumer<StreamResponse> handle)
            throws InterruptedException {
        Failures.Patience tries = new Failures.Patience();
        long seen = 0;
        Iterator<StreamResponse> events = open(agent, request, seen);
        while (true) {
            StreamResponse event;
            try {
                if (!events.hasNext()) {
                    return;
                }
                event = events.next();
            } catch (StatusRuntimeException failure) {
                tries.await(failure);
                events = open(agent, request, seen);
                continue;
            }
            // A stream that goes on begins with the task as it is known already, or, if events are no longer there, as
            // it stands now; then its number is a new one.
            long current = numberOf(event);
            if (current != 0 && current <= seen) {
                continue;
            }
            seen = current;
            tries.reset();
            handle.accept(event);
        }
    }

    private static Iterator<StreamResponse> open(Agent agent, SendMessageRequest request, long seen) {
        Metadata headers = Agent.header("a2a-extensions", EVENT_SEQUENCE);
        headers.merge(Agent.header("last-event-id", Long.toString(seen)));
        return agent.streams()
                .withInterceptors(MetadataUtils.newAttachHeadersInterceptor(headers))
                .sendStreamingMessage(request);
    }

    static void print(StreamResponse event) {
        switch (event.getPayloadCase()) {
            case TASK -> System.out.println("  task");
            case MESSAGE -> System.out.println("  message");
            case STATUS_UPDATE -> System.out.println("  " + event.getStatusUpdate().getStatus().getState());
            case ARTIFACT_UPDATE -> print(event.getArtifactUpdate().getArtifact());
            case PAYLOAD_NOT_SET -> {}
        }
    }

    static void print(Artifact artifact) {
        String content = artifact.getPartsList().stream().map(Events::shown).collect(Collectors.joining());
        // Only the first chunk of an artifact has its name; all of them have its id.
        String name = artifact.getName().isEmpty() ? "+" : artifact.getName();
        System.out.println("  " + name + ": " + content.strip());
    }

    private static String shown(Part part) {
        return switch (part.getContentCase()) {
            case TEXT -> part.getText();
            case DATA -> {
                Map<String, Value> fields = part.getData().getStructValue().getFieldsMap();
                yield "%.0f of %.0f sentences"
                        .formatted(fields.get("kept").getNumberValue(), fields.get("sentences").getNumberValue());
            }
            default -> "";
        };
    }

    /** The number of an event in its task, where the extension event-sequence is active. */
    private static long numberOf(StreamResponse event) {
        Struct extra =
                switch (event.getPayloadCase()) {
                    case TASK -> event.getTask().getMetadata();
                    case STATUS_UPDATE -> event.getStatusUpdate().getMetadata();
                    case ARTIFACT_UPDATE -> event.getArtifactUpdate().getMetadata();
                    default -> Struct.getDefaultInstance();
                };
        return (long) extra.getFieldsOrDefault(EVENT_SEQUENCE, Value.getDefaultInstance()).getNumberValue();
    }
}
