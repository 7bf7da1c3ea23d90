// Turns a kind of lock and a number of threads into Redisson clients that want the same lock, and says how each of them fared.
//
// Any test may use it, by support/java.rs:
//   java -cp JARS Peers.java URL KIND NAME THREADS HOLD_MS RUN_MS
// KIND is reentrant, fair or fenced. All threads share one client, as those of an application do.
//
// It prints {"ready":true} when it is connected, and begins when it reads a line. Each thread takes the lock, keeps it for HOLD_MS, gives it
// back and wants it again. After RUN_MS nobody begins to wait any more; who waits by then does so until it enters, or for 10 s more.
// The end is a line for each thread:
//   {"thread":0,"grants":111,"longest_ms":103.250,"waited_ms":7805.125}
// grants counts those within RUN_MS; the longest of the waits, and their sum, count also a wait that goes on at the end.

import java.util.Locale;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

public class Peers {
    static final long AFTERWARDS_MS = 10_000;

    public static void main(String[] args) throws Exception {
        String name = args[2];
        Worker[] workers = new Worker[Integer.parseInt(args[3])];
        long holdMs = Long.parseLong(args[4]);
        long runMs = Long.parseLong(args[5]);
        Config config = new Config();
        // A connection that is opened in the middle of a run would count as a wait.
        config.useSingleServer().setAddress(args[0])
            .setConnectionPoolSize(workers.length + 2).setConnectionMinimumIdleSize(workers.length + 2);
        RedissonClient client = Redisson.create(config);
        // Loads the scripts and most of the classes.
        RLock warm = lock(client, args[1], name + ":warm");
        for (int i = 0; i < 50; i++) {
            warm.lock();
            warm.unlock();
        }
        System.out.println("{\"ready\":true}");
        System.out.flush();
        System.in.read();
        long endNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(runMs);
        for (int i = 0; i < workers.length; i++) {
            workers[i] = new Worker(lock(client, args[1], name), holdMs, endNs);
            workers[i].start();
        }
        long lastNs = endNs + TimeUnit.MILLISECONDS.toNanos(AFTERWARDS_MS);
        for (Worker worker : workers) {
            worker.join(Math.max(1, TimeUnit.NANOSECONDS.toMillis(lastNs - System.nanoTime())));
        }
        for (int i = 0; i < workers.length; i++) {
            System.out.println(workers[i].line(i));
        }
        System.out.flush();
        // Threads that still wait keep nobody here.
        Runtime.getRuntime().halt(0);
    }

    static RLock lock(RedissonClient client, String kind, String name) {
        switch (kind) {
            case "reentrant": return client.getLock(name);
            case "fair": return client.getFairLock(name);
            case "fenced": return client.getFencedLock(name);
            default: throw new IllegalArgumentException("no such kind: " + kind);
        }
    }

    static class Worker extends Thread {
        final RLock lock;
        final long holdMs, endNs;
        long grants, longestNs, waitedNs;
        /** Since when it waits; 0 if it does not. */
        long sinceNs;

        Worker(RLock lock, long holdMs, long endNs) {
            this.lock = lock;
            this.holdMs = holdMs;
            this.endNs = endNs;
            setDaemon(true);
        }

        @Override
        public void run() {
            while (System.nanoTime() < endNs) {
                synchronized (this) {
                    sinceNs = System.nanoTime();
                }
                lock.lock();
                synchronized (this) {
                    waited();
                    sinceNs = 0;
                    grants += System.nanoTime() < endNs ? 1 : 0;
                }
                try {
                    Thread.sleep(System.nanoTime() < endNs ? holdMs : 0);
                } catch (InterruptedException ended) {
                    return;
                } finally {
                    lock.unlock();
                }
            }
        }

        void waited() {
            long ns = System.nanoTime() - sinceNs;
            longestNs = Math.max(longestNs, ns);
            waitedNs += ns;
        }

        synchronized String line(int number) {
            if (sinceNs != 0) {
                waited();
            }
            return String.format(Locale.ROOT,
                "{\"thread\":%d,\"grants\":%d,\"longest_ms\":%.3f,\"waited_ms\":%.3f}",
                number, grants, longestNs / 1e6, waitedNs / 1e6);
        }
    }
}
