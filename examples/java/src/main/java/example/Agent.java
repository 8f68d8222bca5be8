package example;

import com.google.lf.a2a.v1.A2AServiceGrpc;
import com.google.lf.a2a.v1.A2AServiceGrpc.A2AServiceBlockingStub;
import com.google.lf.a2a.v1.AgentCard;
import com.google.lf.a2a.v1.AgentInterface;
import com.google.protobuf.util.JsonFormat;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.TlsChannelCredentials;
import io.grpc.stub.MetadataUtils;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/** An agent that was discovered, and the connection to it. */
final class Agent implements AutoCloseable {
    private static final String VERSION = "1.0";
    private static final Duration CONNECT_TIMEOUT = Duration.ofSeconds(10);
    private static final long CALL_TIMEOUT_SECONDS = 30;
    // Tasks with large artifacts do not fit into the 4 MiB that gRPC takes unless told otherwise.
    private static final int MAX_ANSWER_BYTES = 64 << 20;

    private final AgentCard card;
    private final String tenant;
    private final ManagedChannel channel;
    private final A2AServiceBlockingStub stub;

    private Agent(AgentCard card, String tenant, ManagedChannel channel) {
        this.card = card;
        this.tenant = tenant;
        this.channel = channel;
        this.stub =
                A2AServiceGrpc.newBlockingStub(channel)
                        .withMaxInboundMessageSize(MAX_ANSWER_BYTES)
                        .withInterceptors(MetadataUtils.newAttachHeadersInterceptor(header("a2a-version", VERSION)));
    }

    /** Fetches the card behind {@code baseUrl} and connects to the first interface that speaks this version over gRPC. */
    static Agent connect(String baseUrl) throws IOException, InterruptedException {
        AgentCard card = discover(baseUrl);
        AgentInterface chosen =
                card.getSupportedInterfacesList().stream()
                        .filter(one -> one.getProtocolBinding().equals("GRPC"))
                        .filter(one -> one.getProtocolVersion().equals(VERSION))
                        .findFirst()
                        .orElseThrow(() -> new IOException(card.getName() + " has no interface for gRPC " + VERSION));
        // TLS if the card came over TLS: what it names must not be less protected.
        var credentials =
                baseUrl.startsWith("https:") ? TlsChannelCredentials.create() : InsecureChannelCredentials.create();
        // Pings find out that a connection is dead while a stream is silent. The server takes one every 10 s.
        ManagedChannel channel =
                Grpc.newChannelBuilder(chosen.getUrl(), credentials)
                        .keepAliveTime(30, TimeUnit.SECONDS)
                        .keepAliveTimeout(10, TimeUnit.SECONDS)
                        .build();
        return new Agent(card, chosen.getTenant(), channel);
    }

    private static AgentCard discover(String baseUrl) throws IOException, InterruptedException {
        HttpClient http = HttpClient.newBuilder().connectTimeout(CONNECT_TIMEOUT).build();
        URI uri = URI.create(baseUrl.replaceFirst("/$", "") + "/.well-known/agent-card.json");
        HttpRequest request = HttpRequest.newBuilder(uri).timeout(CONNECT_TIMEOUT).build();
        HttpResponse<String> response = http.send(request, HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() != 200) {
            throw new IOException("the card: " + response.statusCode());
        }
        AgentCard.Builder card = AgentCard.newBuilder();
        // A later minor version may add fields.
        JsonFormat.parser().ignoringUnknownFields().merge(response.body(), card);
        return card.build();
    }

    AgentCard card() {
        return card;
    }

    /** Whom calls are for, as the card says. */
    String tenant() {
        return tenant;
    }

    /** For calls that are not streams: each is over within its time. */
    A2AServiceBlockingStub calls() {
        return stub.withDeadlineAfter(CALL_TIMEOUT_SECONDS, TimeUnit.SECONDS);
    }

    /** For streams. They have no deadline, since a task may take its time. */
    A2AServiceBlockingStub streams() {
        return stub;
    }

    /** Metadata with one pair; more are merged into it. */
    static Metadata header(String name, String value) {
        Metadata metadata = new Metadata();
        metadata.put(Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER), value);
        return metadata;
    }

    @Override
    public void close() {
        channel.shutdownNow();
    }
}
