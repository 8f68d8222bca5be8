package example;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.protobuf.util.Durations;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Supplier;

/** What errors say, and what to do about those that pass. */
final class Failures {
    private static final int ATTEMPTS = 6;
    private static final long FIRST_WAIT_MS = 200;

    private Failures() {}

    /** What an error is: its code, its reason, and the fields that are wrong. */
    static String describe(StatusRuntimeException failure) {
        List<String> said = new ArrayList<>(List.of(failure.getStatus().getCode().name()));
        detail(failure, ErrorInfo.class).ifPresent(info -> said.addAll(List.of(info.getReason(), info.getDomain())));
        detail(failure, BadRequest.class)
                .ifPresent(bad -> bad.getFieldViolationsList().forEach(violation -> said.add(violation.getField())));
        return String.join(" ", said);
    }

    /**
     * Makes a call again while the service is UNAVAILABLE or the caller too fast.
     *
     * <p>A message that is sent again under its message id starts nothing a second time, so that this is safe for
     * sendMessage too.
     */
    static <T> T retried(Supplier<T> call) throws InterruptedException {
        Patience tries = new Patience();
        while (true) {
            try {
                return call.get();
            } catch (StatusRuntimeException failure) {
                tries.await(failure);
            }
        }
    }

    /** How often a call has failed in a row. */
    static final class Patience {
        private int failures;

        /**
         * Returns when the call should be made again. Throws the failure if that ends the attempts: it does not pass by
         * itself, or is one too many.
         */
        void await(StatusRuntimeException failure) throws InterruptedException {
            failures++;
            Status.Code code = failure.getStatus().getCode();
            long asked = retryDelayMs(failure);
            // A limit that is reached passes by itself where the service says when.
            boolean passes =
                    code == Status.Code.UNAVAILABLE || (code == Status.Code.RESOURCE_EXHAUSTED && asked > 0);
            if (!passes || failures == ATTEMPTS) {
                throw failure;
            }
            long longest = FIRST_WAIT_MS << failures;
            long jittered = ThreadLocalRandom.current().nextLong(longest / 4, longest * 3 / 4);
            long pause = Math.max(jittered, asked);
            System.err.printf("%s, once more in %d ms%n", code, pause);
            Thread.sleep(pause);
        }

        /** The call has brought something. */
        void reset() {
            failures = 0;
        }
    }

    /** How long the service asks to wait. */
    private static long retryDelayMs(StatusRuntimeException failure) {
        return detail(failure, RetryInfo.class).map(info -> Durations.toMillis(info.getRetryDelay())).orElse(0L);
    }

    private static <T extends Message> Optional<T> detail(StatusRuntimeException failure, Class<T> type) {
        com.google.rpc.Status status = StatusProto.fromThrowable(failure);
        if (status == null) {
            return Optional.empty();
        }
        for (Any any : status.getDetailsList()) {
            if (any.is(type)) {
                try {
                    return Optional.of(any.unpack(type));
                } catch (InvalidProtocolBufferException malformed) {
                    return Optional.empty();
                }
            }
        }
        return Optional.empty();
    }
}
