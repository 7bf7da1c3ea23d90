// A driver of the lock `SET key value NX PX lease` on one Redis server. Put your own library in the place of its commands.
//
//   javac -d build *.java && locklab conform 'java -cp build Driver'

import java.util.List;
import java.util.UUID;

public final class Driver extends LocklabDriver.Library {
    static final String DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
    static final String EXPIRE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0";
    Resp server;

    public static void main(String[] args) throws Exception {
        LocklabDriver.serve(new Driver());
    }

    Driver() {
        name = "set-nx-px";
        version = "1.0";
        features = List.of("extend");
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
                return new Held(asked.lock, value, sent);
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
        final String lock, value;

        Held(String lock, String value, long sent) {
            this.lock = lock;
            this.value = value;
            sentNs = sent;
        }

        @Override
        public void release() throws Exception {
            mine(server.command("EVAL", DELETE, "1", lock, value));
        }

        @Override
        public void extend(long leaseMs) throws Exception {
            mine(server.command("EVAL", EXPIRE, "1", lock, value, "" + leaseMs));
        }

        void mine(String reply) throws LocklabDriver.NotHeld {
            if (!reply.equals(":1")) {
                throw new LocklabDriver.NotHeld();
            }
        }
    }
}
