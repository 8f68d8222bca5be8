package example;

import com.google.lf.a2a.v1.CancelTaskRequest;
import com.google.lf.a2a.v1.GetTaskRequest;
import com.google.lf.a2a.v1.Message;
import com.google.lf.a2a.v1.Part;
import com.google.lf.a2a.v1.Role;
import com.google.lf.a2a.v1.SendMessageRequest;
import com.google.lf.a2a.v1.StreamResponse;
import com.google.lf.a2a.v1.SubscribeToTaskRequest;
import com.google.lf.a2a.v1.Task;
import com.google.lf.a2a.v1.TaskState;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.MetadataUtils;
import java.io.IOException;
import java.util.Iterator;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicReference;

/**
 * Calls an agent over gRPC with stubs of its own: discovers it, sends, streams, resumes, cancels, and meets errors.
 *
 * <p>Usage: {@code java -jar target/a2a-client.jar http://localhost:8080}, where {@code a2a-grpc serve} runs with its demo
 * agent.
 */
public final class Main {
    private static final String TEXT =
            "summarize Agents call each other. They speak A2A. Some of them are slow. A2A lets them stream.";
    private static final String LAST_EVENT_ID = "last-event-id";

    private Main() {}

    public static void main(String[] args) throws IOException, InterruptedException {
        if (args.length != 1) {
            System.err.println("usage: java -jar target/a2a-client.jar URL");
            System.exit(2);
        }
        try (Agent agent = Agent.connect(args[0])) {
            System.out.printf("agent %s %s%n", agent.card().getName(), agent.card().getVersion());
            send(agent);
            stream(agent);
            resume(agent);
            cancelRunning(agent);
            meetErrors(agent);
        } catch (StatusRuntimeException failure) {
            System.err.println(Failures.describe(failure));
            System.exit(1);
        }
    }

    /** Waits for the outcome of a message. */
    private static void send(Agent agent) throws InterruptedException {
        // Made once: every attempt carries the same message id, so that the work is done once.
        SendMessageRequest request = request(TEXT);
        Task task = Failures.retried(() -> agent.calls().sendMessage(request)).getTask();
        System.out.println("send " + task.getStatus().getState());
        task.getArtifactsList().forEach(Events::print);
    }

    /** Shows what happens as it happens. */
    private static void stream(Agent agent) {
        System.out.println("stream");
        agent.streams().sendStreamingMessage(request(TEXT)).forEachRemaining(Events::print);
    }

    /** Leaves a stream after its first artifact and takes it up again behind the last event that it saw. */
    private static void resume(Agent agent) {
        Metadata headers = Agent.header("a2a-extensions", Events.EVENT_SEQUENCE);
        StringBuilder summary = new StringBuilder();
        String taskId = "";
        long seen = 0;
        Context.CancellableContext leaving = Context.current().withCancellation();
        Context before = leaving.attach();
        try {
            Iterator<StreamResponse> events =
                    agent.streams()
                            .withInterceptors(MetadataUtils.newAttachHeadersInterceptor(headers))
                            .sendStreamingMessage(request(TEXT));
            while (summary.isEmpty()) {
                StreamResponse event = events.next();
                if (event.hasTask()) {
                    taskId = event.getTask().getId();
                }
                seen = Events.numberOf(event);
                summary.append(Events.textOf(event));
            }
        } finally {
            leaving.detachAndCancel(before, null);
        }

        headers.merge(Agent.header(LAST_EVENT_ID, Long.toString(seen)));
        AtomicReference<Metadata> answered = new AtomicReference<>();
        Iterator<StreamResponse> rest =
                agent.streams()
                        .withInterceptors(
                                MetadataUtils.newAttachHeadersInterceptor(headers),
                                MetadataUtils.newCaptureMetadataInterceptor(answered, new AtomicReference<>()))
                        .subscribeToTask(SubscribeToTaskRequest.newBuilder().setId(taskId).build());
        while (rest.hasNext()) {
            String first = answered.get().get(Agent.key(LAST_EVENT_ID));
            // The number that was asked for: nothing is missing, and the task that comes first says nothing new.
            if (!Long.toString(seen).equals(first)) {
                throw new IllegalStateException("events after " + seen + " are missing: " + first);
            }
            summary.append(Events.textOf(rest.next()));
        }
        System.out.println("resume");
        System.out.println("  summary: " + summary.toString().strip());
    }

    /** Stops a task that would go on for a minute, and sees its stream end. */
    private static void cancelRunning(Agent agent) {
        String taskId = "";
        TaskState last = TaskState.TASK_STATE_UNSPECIFIED;
        Iterator<StreamResponse> events =
                agent.streams()
                        .sendStreamingMessage(request("summarize " + "Agents call each other. ".repeat(3000)));
        while (events.hasNext()) {
            StreamResponse event = events.next();
            if (event.hasTask()) {
                taskId = event.getTask().getId();
            } else if (event.hasStatusUpdate()) {
                last = event.getStatusUpdate().getStatus().getState();
            } else if (!taskId.isEmpty()) {
                // It is at work: stop it, once.
                Task task = agent.calls().cancelTask(CancelTaskRequest.newBuilder().setId(taskId).build());
                System.out.println("cancel " + task.getStatus().getState());
                taskId = "";
            }
        }
        System.out.println("  the stream ended with " + last);
    }

    /** Makes two mistakes and says what the service answers. */
    private static void meetErrors(Agent agent) {
        Message empty = Message.newBuilder().setMessageId(newId()).setRole(Role.ROLE_USER).build();
        Runnable[] mistakes = {
            () -> agent.calls().getTask(GetTaskRequest.newBuilder().setId("no-such-task").build()),
            () -> agent.calls().sendMessage(SendMessageRequest.newBuilder().setMessage(empty).build()),
        };
        for (Runnable mistake : mistakes) {
            try {
                mistake.run();
            } catch (StatusRuntimeException failure) {
                System.out.println("error " + Failures.describe(failure));
            }
        }
    }

    private static SendMessageRequest request(String text) {
        Message message =
                Message.newBuilder()
                        .setMessageId(newId())
                        .setRole(Role.ROLE_USER)
                        .addParts(Part.newBuilder().setText(text))
                        .build();
        return SendMessageRequest.newBuilder().setMessage(message).build();
    }

    private static String newId() {
        return UUID.randomUUID().toString();
    }
}
