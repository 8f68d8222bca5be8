package example;

import com.google.lf.a2a.v1.Artifact;
import com.google.lf.a2a.v1.Part;
import com.google.lf.a2a.v1.StreamResponse;
import com.google.protobuf.Struct;
import com.google.protobuf.Value;
import java.util.Map;
import java.util.stream.Collectors;

/** What the events of a stream hold. */
final class Events {
    static final String EVENT_SEQUENCE = "urn:a2a-grpc:extension:event-sequence:v1";

    private Events() {}

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

    /** The text that an event adds to an artifact. */
    static String textOf(StreamResponse event) {
        return event.getArtifactUpdate().getArtifact().getPartsList().stream()
                .map(Part::getText)
                .collect(Collectors.joining());
    }

    /** The number of an event in its task, where the extension event-sequence is active. */
    static long numberOf(StreamResponse event) {
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
