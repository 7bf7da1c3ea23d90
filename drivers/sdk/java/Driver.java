// A driver of the lock `SET key value NX PX lease` on one Redis server, whose holder is told before the lease ends.
// Put your own library in the place of its commands.
//
//   javac -d build *.java && locklab conform 'java -cp build Driver'

import java.util.List;
import java.util.UUID;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;

public final class Driver extends LocklabDriver.Library {
    static final String DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
    static final String EXPIRE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0";
    static final ScheduledExecutorService TIMER = Executors.newSingleThreadScheduledExecutor();
    Resp server;

    public static void main(String[] args) throws Exception {
        LocklabDriver.serve(new Driver());
    }

    Driver() {
        name = "set-nx-px";
        version = "1.0";
        features = List.of("extend", "lost");
    }

    @Override
    public void connect(LocklabDriver.Hello hello) throws Exception {
        server = new Resp(hello.hosts().get(0));
        try {
            server.command("PING");
        } catch (LocklabDriver.Failed error) {
            throw new LocklabDriver.Unreachable(error.getMessage());
        }
    }

    @Override
    public LocklabDriver.Grant acquire(LocklabDriver.Request asked) throws Exception {
        String value = UUID.randomUUID().toString();
        long untilNs = asked.untilNs();
        while (true) {
            long sent = System.nanoTime();
            if (server.command("SET", asked.lock, value, "NX", "PX", "" + asked.leaseMs).equals("+OK")) {
                Held held = new Held(asked, value, sent);
                if (held.keep(sent, asked.leaseMs)) {
                    return held;
                }
                server.command("EVAL", DELETE, "1", asked.lock, value);
            }
            if (System.nanoTime() - untilNs >= 0) {
                throw new LocklabDriver.Busy();
            }
            try {
                Thread.sleep(10);
            } catch (InterruptedException givenUp) {
                throw new LocklabDriver.Failed("given up");
            }
        }
    }

    final class Held extends LocklabDriver.Grant {
        final LocklabDriver.Request asked;
        final String value;
        ScheduledFuture<?> told;

        Held(LocklabDriver.Request asked, String value, long sent) {
            this.asked = asked;
            this.value = value;
            sentNs = sent;
        }

        /** False: the answer came when the lease was over. A tenth of it is kept for a timer that is late. */
        boolean keep(long sent, long leaseMs) {
            long left = sent + leaseMs * 900_000 - System.nanoTime();
            if (left > 0) {
                told = TIMER.schedule(() -> asked.lost("the lease ends"), left, TimeUnit.NANOSECONDS);
            }
            return left > 0;
        }

        @Override
        public void release() throws Exception {
            told.cancel(false);
            mine(server.command("EVAL", DELETE, "1", asked.lock, value));
        }

        @Override
        public void extend(long leaseMs) throws Exception {
            long sent = System.nanoTime();
            mine(server.command("EVAL", EXPIRE, "1", asked.lock, value, "" + leaseMs));
            if (!told.cancel(false) || !keep(sent, leaseMs)) {
                throw new LocklabDriver.NotHeld();
            }
        }

        void mine(String reply) throws LocklabDriver.NotHeld {
            if (!reply.equals(":1")) {
                throw new LocklabDriver.NotHeld();
            }
        }
    }
}
