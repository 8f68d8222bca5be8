package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"

	"example.com/a2a-client/gen/a2a"
)

const (
	versionHeader = "a2a-version"
	version       = "1.0"
	maxCardBytes  = 1 << 20
	// Tasks with large artifacts do not fit into the 4 MiB that gRPC takes unless told otherwise.
	maxAnswerBytes = 64 << 20
)

// agent is a client of the service, and the tenant that its card says calls are for.
type agent struct {
	a2a.A2AServiceClient
	tenant string
}

// discover fetches the card of the agent at baseURL.
func discover(ctx context.Context, baseURL string) (*a2a.AgentCard, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(baseURL, "/")+"/.well-known/agent-card.json", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the card: %s", response.Status)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxCardBytes))
	if err != nil {
		return nil, err
	}
	card := new(a2a.AgentCard)
	// A later minor version may add fields.
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, card); err != nil {
		return nil, fmt.Errorf("the card: %w", err)
	}
	return card, nil
}

// grpcInterface is the first one of the card that speaks this version over gRPC.
func grpcInterface(card *a2a.AgentCard) (*a2a.AgentInterface, error) {
	for _, candidate := range card.GetSupportedInterfaces() {
		if candidate.GetProtocolBinding() == "GRPC" && candidate.GetProtocolVersion() == version {
			return candidate, nil
		}
	}
	return nil, fmt.Errorf("%s has no interface for gRPC %s", card.GetName(), version)
}

// connect opens a channel, with TLS if the card came over TLS. What the card names must not be less protected.
func connect(chosen *a2a.AgentInterface, secure bool) (*grpc.ClientConn, error) {
	transport := insecure.NewCredentials()
	if secure {
		transport = credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12})
	}
	return grpc.NewClient(
		chosen.GetUrl(),
		grpc.WithTransportCredentials(transport),
		// Finds out that a connection is dead while a stream is silent. The server takes a ping every 10 s.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswerBytes)),
		grpc.WithChainUnaryInterceptor(withVersion),
		grpc.WithChainStreamInterceptor(withStreamVersion),
	)
}

func withVersion(
	ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	return invoke(metadata.AppendToOutgoingContext(ctx, versionHeader, version), method, request, reply, conn, options...)
}

func withStreamVersion(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return open(metadata.AppendToOutgoingContext(ctx, versionHeader, version), desc, conn, method, options...)
}
