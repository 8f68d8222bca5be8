package sdk;

import com.google.gson.Gson;
import io.a2a.client.Client;
import io.a2a.client.ClientBuilder;
import io.a2a.client.ClientEvent;
import io.a2a.client.MessageEvent;
import io.a2a.client.TaskEvent;
import io.a2a.client.TaskUpdateEvent;
import io.a2a.client.config.ClientConfig;
import io.a2a.client.http.A2ACardResolver;
import io.a2a.client.transport.grpc.GrpcTransport;
import io.a2a.client.transport.grpc.GrpcTransportConfig;
import io.a2a.client.transport.jsonrpc.JSONRPCTransport;
import io.a2a.client.transport.jsonrpc.JSONRPCTransportConfig;
import io.a2a.client.transport.rest.RestTransport;
import io.a2a.client.transport.rest.RestTransportConfig;
import io.a2a.client.transport.spi.interceptors.ClientCallContext;
import io.a2a.spec.A2AError;
import io.a2a.spec.AgentCard;
import io.a2a.spec.Artifact;
import io.a2a.spec.ListTasksParams;
import io.a2a.spec.Message;
import io.a2a.spec.MessageSendParams;
import io.a2a.spec.Part;
import io.a2a.spec.Task;
import io.a2a.spec.TaskArtifactUpdateEvent;
import io.a2a.spec.TaskIdParams;
import io.a2a.spec.TaskQueryParams;
import io.a2a.spec.TaskStatusUpdateEvent;
import io.a2a.spec.TextPart;
import io.a2a.spec.UpdateEvent;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import java.util.function.Consumer;

/**
 * Calls a service with the official Java client and prints what came back: one JSON object, scenario -> lines. The
 * judgement is that of test_sdks.py, which knows what each line has to be.
 *
 * <p>Usage: java -jar sdk.jar URL BINDING
 */
public final class Main {
    // This release of the client does not send it by itself.
    private static final ClientCallContext VERSION = new ClientCallContext(Map.of(), Map.of("A2A-Version", "1.0"));
    private static final long PATIENCE_SECONDS = 10;

    private final Client calls;
    private final Client streams;

    private Main(Client calls, Client streams) {
        this.calls = calls;
        this.streams = streams;
    }

    public static void main(String[] args) throws Exception {
        AgentCard card = new A2ACardResolver(args[0]).getAgentCard();
        Main main = new Main(client(card, args[1], false), client(card, args[1], true));
        Map<String, Scenario> scenarios =
                Map.of(
                        "send", main::send,
                        "message", main::message,
                        "stream", main::stream,
                        "conversation", main::conversation,
                        "cancel", main::cancel,
                        "subscribe", main::subscribe,
                        "list", main::list,
                        "unknown", main::unknown,
                        "ended", main::ended,
                        "invalid", main::invalid);
        Map<String, List<String>> outcomes = new TreeMap<>();
        for (var each : scenarios.entrySet()) {
            List<String> lines = new ArrayList<>();
            try {
                each.getValue().play(lines);
            } catch (Exception failure) {
                lines.add("threw: " + failure);
            }
            outcomes.put(each.getKey(), lines);
        }
        System.out.println(new Gson().toJson(outcomes));
        System.exit(0);
    }

    private static Client client(AgentCard card, String binding, boolean streaming) throws Exception {
        ClientBuilder builder =
                Client.builder(card)
                        .clientConfig(
                                ClientConfig.builder().setStreaming(streaming).setUseClientPreference(true).build());
        switch (binding) {
            case "GRPC" -> builder.withTransport(GrpcTransport.class, new GrpcTransportConfig(Main::channel));
            case "HTTP+JSON" -> builder.withTransport(RestTransport.class, new RestTransportConfig());
            default -> builder.withTransport(JSONRPCTransport.class, new JSONRPCTransportConfig());
        }
        return builder.build();
    }

    private static ManagedChannel channel(String target) {
        return ManagedChannelBuilder.forTarget(target).usePlaintext().build();
    }

    private interface Scenario {
        void play(List<String> lines) throws Exception;
    }

    /** What a call brings, on whatever thread it comes. */
    private static final class Inbox {
        private final BlockingQueue<Object> arrived = new LinkedBlockingQueue<>();

        List<BiConsumer<ClientEvent, AgentCard>> events() {
            return List.of((event, card) -> arrived.add(event));
        }

        Consumer<Throwable> failures() {
            return failure -> {
                if (failure != null) {
                    arrived.add(failure);
                }
            };
        }

        ClientEvent next() throws Exception {
            Object found = arrived.poll(PATIENCE_SECONDS, TimeUnit.SECONDS);
            if (found instanceof ClientEvent event) {
                return event;
            }
            throw found instanceof Exception failure ? failure : new IllegalStateException("came: " + found);
        }
    }

    private ClientEvent ask(Message message) throws Exception {
        Inbox inbox = new Inbox();
        calls.sendMessage(
                MessageSendParams.builder().message(message).build(), inbox.events(), inbox.failures(), VERSION);
        return inbox.next();
    }

    private Inbox open(Message message) throws Exception {
        Inbox inbox = new Inbox();
        streams.sendMessage(
                MessageSendParams.builder().message(message).build(), inbox.events(), inbox.failures(), VERSION);
        return inbox;
    }

    private void send(List<String> lines) throws Exception {
        ClientEvent event = ask(message("", "tck-artifact-text").build());
        lines.add(line(event));
        for (Artifact artifact : ((TaskEvent) event).getTask().artifacts()) {
            lines.add("artifact " + text(artifact.parts()));
        }
    }

    private void message(List<String> lines) throws Exception {
        lines.add(line(ask(message("msg", "java").build())));
    }

    private void stream(List<String> lines) throws Exception {
        Inbox inbox = open(message("", "tck-stream-artifact-chunked").build());
        do {
            lines.add(line(inbox.next()));
        } while (!lines.get(lines.size() - 1).equals("status TASK_STATE_COMPLETED"));
    }

    private void conversation(List<String> lines) throws Exception {
        Task asked = ((TaskEvent) ask(message("ask", "java").build())).getTask();
        lines.add("task " + asked.status().state());
        Message answer = message("the answer", "java").taskId(asked.id()).contextId(asked.contextId()).build();
        lines.add(line(ask(answer)));
        for (Message said : calls.getTask(new TaskQueryParams(asked.id()), VERSION).history()) {
            if (said.role() == Message.Role.ROLE_USER) {
                lines.add("user " + text(said.parts()));
            }
        }
    }

    private void cancel(List<String> lines) throws Exception {
        String id = ((TaskEvent) open(message("hang", "java").build()).next()).getTask().id();
        lines.add("task " + calls.cancelTask(new TaskIdParams(id), VERSION).status().state());
        lines.add(failure(() -> calls.cancelTask(new TaskIdParams(id), VERSION)));
    }

    private void subscribe(List<String> lines) throws Exception {
        String id = ((TaskEvent) open(message("slow 1 silent", "java").build()).next()).getTask().id();
        Inbox inbox = new Inbox();
        streams.subscribeToTask(new TaskIdParams(id), inbox.events(), inbox.failures(), VERSION);
        ClientEvent event = inbox.next();
        lines.add("same task " + ((TaskEvent) event).getTask().id().equals(id));
        while (!line(event).equals("status TASK_STATE_COMPLETED")) {
            event = inbox.next();
        }
        lines.add(line(event));
    }

    private void list(List<String> lines) throws Exception {
        String context = UUID.randomUUID().toString();
        List<String> made = new ArrayList<>();
        for (int count = 0; count < 3; count++) {
            Message message = message("", "tck-artifact-text").contextId(context).build();
            made.add(((TaskEvent) ask(message)).getTask().id());
        }
        ListTasksParams.Builder two = ListTasksParams.builder().contextId(context).pageSize(2);
        var page = calls.listTasks(two.build(), VERSION);
        var rest = calls.listTasks(two.pageToken(page.nextPageToken()).build(), VERSION);
        lines.add("total " + page.totalSize());
        for (Task task : page.tasks()) {
            lines.add("task " + (made.indexOf(task.id()) + 1));
        }
        for (Task task : rest.tasks()) {
            lines.add("task " + (made.indexOf(task.id()) + 1));
        }
    }

    private void unknown(List<String> lines) {
        lines.add(failure(() -> calls.getTask(new TaskQueryParams("no-such-task"), VERSION)));
        lines.add(failure(() -> calls.cancelTask(new TaskIdParams("no-such-task"), VERSION)));
        lines.add(
                failure(
                        () -> {
                            Inbox inbox = new Inbox();
                            streams.subscribeToTask(
                                    new TaskIdParams("no-such-task"), inbox.events(), inbox.failures(), VERSION);
                            inbox.next();
                        }));
        lines.add(failure(() -> ask(message("hello", "java").taskId("no-such-task").build())));
    }

    private void ended(List<String> lines) throws Exception {
        String id = ((TaskEvent) ask(message("", "tck-artifact-text").build())).getTask().id();
        lines.add(failure(() -> ask(message("more", "java").taskId(id).build())));
    }

    private void invalid(List<String> lines) {
        lines.add(
                failure(() -> calls.listTasks(ListTasksParams.builder().pageToken("no-such-page").build(), VERSION)));
    }

    /** A prefix of the id can choose what the agent does. */
    private static Message.Builder message(String text, String prefix) {
        return Message.builder()
                .role(Message.Role.ROLE_USER)
                .messageId(prefix + "-" + UUID.randomUUID())
                .parts(List.<Part<?>>of(new TextPart(text)));
    }

    private interface Call {
        void make() throws Exception;
    }

    /** The class of the error that a call fails with, without what the client wraps around it. */
    private static String failure(Call call) {
        try {
            call.make();
            return "no failure";
        } catch (Exception failure) {
            for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
                if (cause instanceof A2AError) {
                    return cause.getClass().getSimpleName();
                }
            }
            return "unknown: " + failure;
        }
    }

    private static String line(ClientEvent event) {
        if (event instanceof TaskEvent task) {
            return "task " + task.getTask().status().state();
        }
        if (event instanceof MessageEvent message) {
            return "message " + text(message.getMessage().parts());
        }
        UpdateEvent update = ((TaskUpdateEvent) event).getUpdateEvent();
        if (update instanceof TaskStatusUpdateEvent status) {
            return "status " + status.status().state();
        }
        return "artifact " + text(((TaskArtifactUpdateEvent) update).artifact().parts());
    }

    private static String text(List<Part<?>> parts) {
        StringBuilder all = new StringBuilder();
        for (Part<?> part : parts) {
            if (part instanceof TextPart text) {
                all.append(text.text());
            }
        }
        return all.toString();
    }
}
