package example;

import com.google.lf.a2a.v1.CancelTaskRequest;
import com.google.lf.a2a.v1.GetTaskRequest;
import com.google.lf.a2a.v1.Message;
import com.google.lf.a2a.v1.Part;
import com.google.lf.a2a.v1.Role;
import com.google.lf.a2a.v1.SendMessageRequest;
import com.google.lf.a2a.v1.Task;
import com.google.lf.a2a.v1.TaskState;
import io.grpc.StatusRuntimeException;
import java.io.IOException;
import java.util.UUID;

/**
 * Calls an agent over gRPC with stubs of its own: discovers it, sends, streams, cancels, and meets errors.
 *
 * <p>Usage: {@code java -jar target/a2a-client.jar http://localhost:8080}, where {@code a2a-grpc serve} runs with its demo
 * agent.
 */
public final class Main {
    private static final String TEXT =
            "summarize Agents call each other. They speak A2A. Some of them are slow. A2A lets them stream.";

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
        SendMessageRequest request = request(agent, message(TEXT));
        Task task = Failures.retried(() -> agent.calls().sendMessage(request)).getTask();
        System.out.println("send " + task.getStatus().getState());
        task.getArtifactsList().forEach(Events::print);
    }

    /** Shows what happens as it happens. */
    private static void stream(Agent agent) throws InterruptedException {
        System.out.println("stream");
        Events.follow(agent, request(agent, message(TEXT)), Events::print);
    }

    /** Stops a task that would go on for a minute, and sees its stream end. */
    private static void cancelRunning(Agent agent) throws InterruptedException {
        var seen =
                new Object() {
                    String running = "";
                    TaskState last = TaskState.TASK_STATE_UNSPECIFIED;
                };
        SendMessageRequest request = request(agent, message("summarize " + "Agents call each other. ".repeat(3000)));
        Events.follow(
                agent,
                request,
                event -> {
                    if (event.hasTask()) {
                        seen.running = event.getTask().getId();
                    } else if (event.hasStatusUpdate()) {
                        seen.last = event.getStatusUpdate().getStatus().getState();
                    } else if (!seen.running.isEmpty()) {
                        // It is at work: stop it, once.
                        var stop = CancelTaskRequest.newBuilder().setTenant(agent.tenant()).setId(seen.running).build();
                        System.out.println("cancel " + agent.calls().cancelTask(stop).getStatus().getState());
                        seen.running = "";
                    }
                });
        System.out.println("  the stream ended with " + seen.last);
    }

    /** Makes two mistakes and says what the service answers. */
    private static void meetErrors(Agent agent) {
        var unknown = GetTaskRequest.newBuilder().setTenant(agent.tenant()).setId("no-such-task").build();
        Message empty = Message.newBuilder().setMessageId(newId()).setRole(Role.ROLE_USER).build();
        Runnable[] mistakes = {
            () -> agent.calls().getTask(unknown), () -> agent.calls().sendMessage(request(agent, empty)),
        };
        for (Runnable mistake : mistakes) {
            try {
                mistake.run();
            } catch (StatusRuntimeException failure) {
                System.out.println("error " + Failures.describe(failure));
            }
        }
    }

    private static SendMessageRequest request(Agent agent, Message message) {
        return SendMessageRequest.newBuilder().setTenant(agent.tenant()).setMessage(message).build();
    }

    private static Message message(String text) {
        return Message.newBuilder()
                .setMessageId(newId())
                .setRole(Role.ROLE_USER)
                .addParts(Part.newBuilder().setText(text))
                .build();
    }

    private static String newId() {
        return UUID.randomUUID().toString();
    }
}
