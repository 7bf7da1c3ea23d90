// A lock without a server, on the SDK of Java: the name of a lock says what becomes of it.

import java.util.List;
import java.util.concurrent.Semaphore;

public final class Scripted extends LocklabDriver.Library {
    private final Semaphore mutex = new Semaphore(1);
    private volatile LocklabDriver.Request released;

    public static void main(String[] args) throws Exception {
        LocklabDriver.serve(new Scripted());
    }

    Scripted() {
        name = "scripted";
        version = "1.0";
        // `queued` excludes here, so that a loop of `plain` sees two holders and one of `queued` does not.
        kinds = List.of("plain", "queued", "semaphore");
        leaseless = List.of("semaphore");
        topologies = List.of("single", "sentinel", "cluster", "masters");
    }

    static String none(String text) {
        return text.isEmpty() ? "None" : text;
    }

    @Override
    public void connect(LocklabDriver.Hello hello) throws Exception {
        watchdogMs = hello.watchdogMs();
        if (hello.client().equals("echo")) {
            throw new LocklabDriver.Failed(String.join("; ", hello.shape(), String.join(",", hello.hosts()).replaceAll("\\[|\\]", "").replaceAll(":(\\d+)(,|$)", " $1$2"), none(hello.user()),
                none(hello.password()), none(hello.path()), "" + hello.tls()));
        }
        if (hello.client().equals("away")) {
            throw new LocklabDriver.Unreachable("nobody there");
        }
    }

    @Override
    public LocklabDriver.Grant acquire(LocklabDriver.Request asked) throws Exception {
        boolean loop = asked.owner.startsWith("load");
        if (!loop) {
            System.out.println("a library that prints");
            if (released != null) {
                released.lost("after its release");
            }
        }
        LocklabDriver.Grant grant = new LocklabDriver.Grant() {
            private boolean broken = asked.lock.equals("breaks");

            @Override
            public void release() throws Exception {
                if (asked.lock.equals("fenced")) {
                    throw new LocklabDriver.NotHeld();
                }
                if (broken) {
                    broken = false;
                    throw new java.io.IOException("lost");
                }
                if (asked.kind.equals("queued")) {
                    mutex.release();
                } else if (!loop) {
                    released = asked;
                }
            }
        };
        switch (asked.lock) {
            case "busy" -> throw new LocklabDriver.Busy();
            case "failed" -> throw new LocklabDriver.Failed("no");
            case "odd" -> throw new LocklabDriver.NotHeld();
            case "throws" -> throw new IllegalStateException("a mistake");
            case "waits" -> Thread.sleep(60_000);
            case "loses" -> asked.lost("gone");
            case "renews" -> asked.extended(5000, System.nanoTime());
            case "fenced" -> {
                grant.token = 17L;
                grant.leaseMs = 900;
                grant.sentNs = System.nanoTime();
            }
            default -> {}
        }
        if (asked.kind.equals("queued")) {
            mutex.acquire();
        }
        return grant;
    }
}
