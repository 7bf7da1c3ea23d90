// Makes a driver of locklab's out of a lock library: the author gives a Library, whose acquire gives a Grant, which is released. The rest of
// the driver protocol (docs/src/driver-protocol.md) is done here: requests side by side, grants, endings, clocks, events, cancellation, and
// the load loop with its histograms. It needs nothing but a JDK, 17 or newer.

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.net.URLDecoder;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.zip.DeflaterOutputStream;

public final class LocklabDriver {
    /** A lock library as its driver describes it. The fields may be set until connect returns. */
    public abstract static class Library {
        public String name, version;
        /** The default first; an acquire of any other kind is refused here. */
        public List<String> kinds = List.of("plain");
        /** Of single, sentinel, cluster, masters and zookeeper; on any other the library has nothing to lock with. */
        public List<String> topologies = List.of("single");
        /** Those beside what is brought here (load, prefix, overlap, mono, cancel), e.g. extend. */
        public List<String> features = List.of();
        /** What the library's own work runs on, an event loop or a pool once for each of its threads: with it comes the feature block. */
        public List<Executor> runsOn = List.of();
        /** The lease that the library renews by itself; 0: it does not, and a lock without a lease is refused here. */
        public long watchdogMs;
        /** Kinds whose permits have no lease, e.g. semaphore. */
        public List<String> leaseless = List.of();

        /** Makes the process's client. Unreachable says that no server answered. */
        public abstract void connect(Hello hello) throws Exception;

        /** Asks for a lock, and blocks. Throws Busy, Failed of what certainly did not happen, or anything else, which is unknown. */
        public Grant acquire(Request request) throws Exception {
            throw new UnsupportedOperationException();
        }

        /** For a library that does not block: instead of acquire. */
        public CompletionStage<? extends Grant> acquireAsync(Request request) throws Exception {
            return CompletableFuture.completedFuture(acquire(request));
        }
    }

    /** A lock that is held. A release or an extend throws NotHeld where the server said so, Failed, or anything else, which is unknown. */
    public abstract static class Grant {
        /** System.nanoTime() when the successful attempt was sent; 0: not known. */
        public long sentNs;
        /** The fencing token; null: none. */
        public Long token;
        /** What was granted, where that is shorter than what was asked for; else 0. */
        public long leaseMs;
        private volatile boolean lost;

        public void release() throws Exception {
            throw new UnsupportedOperationException();
        }

        /** For a library that does not block: instead of release. */
        public CompletionStage<?> releaseAsync() throws Exception {
            release();
            return CompletableFuture.completedFuture(null);
        }

        /** Sets the lease from now on. */
        public void extend(long leaseMs) throws Exception {
            throw new Failed("extend is not offered");
        }

        /** What the library believes, without a question to a server. */
        public boolean held() {
            return true;
        }
    }

    /** Where the servers are, and what is asked of the client: shape is single, sentinel, cluster, masters or zookeeper, hosts are host:port, path is a
     * database's number or the sentinels' name of the master, watchdogMs the wished lease of renewed locks or 0,
     * tlsCa the file of the authority that signed the servers' certificates, or empty. */
    public record Hello(String target, String shape, List<String> hosts, String user, String password, String path, boolean tls, String tlsCa,
            String client, long seed, String durability, long watchdogMs) {}

    /** One acquire. */
    public static final class Request {
        /** A wait without bound. */
        public static final long FOREVER = Long.MAX_VALUE;
        /** The lock's name; of kind multi, locks are all of them. */
        public String lock, kind, owner;
        public List<String> locks;
        /** The longest wait; 0 is one try. */
        public long waitMs;
        /** 0 where the library renews by itself. */
        public long leaseMs;
        public int permits = 1;
        private String grant;
        private final CompletableFuture<Void> told = new CompletableFuture<>();
        private Runnable cancel;
        private boolean cancelled;

        /** System.nanoTime() when the wait is over. */
        public long untilNs() {
            return System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(Math.min(waitMs, TimeUnit.DAYS.toMillis(100)));
        }

        /** What gives the request up; without it, a thread that blocks in acquire is interrupted. */
        public synchronized void onCancel(Runnable cancel) {
            this.cancel = cancel;
            if (cancelled) {
                cancel.run();
            }
        }

        private synchronized void cancel() {
            cancelled = true;
            if (cancel != null) {
                cancel.run();
            }
        }

        /** The library says that the lock is gone. */
        public void lost(String reason) {
            event("lost", Map.of("reason", reason, "at_mono_ns", System.nanoTime()));
        }

        /** The library has renewed: the lease counts from System.nanoTime() when the renewal was sent. */
        public void extended(long leaseMs, long sentNs) {
            event("extended", Map.of("lease_ms", leaseMs, "at_mono_ns", sentNs));
        }

        /** It is about a grant that locklab knows: after its answer, and before its release. */
        private void event(String event, Map<String, Object> more) {
            told.thenRun(() -> {
                Grant held = GRANTS.get(grant);
                if (held != null) {
                    held.lost |= event.equals("lost");
                    Map<String, Object> line = new LinkedHashMap<>(Map.of("event", event, "grant", grant));
                    line.putAll(more);
                    say(line);
                }
            });
        }
    }

    /** Another certainly had the lock until the wait was over. */
    public static final class Busy extends Exception {}

    /** The server did not have the lock as this grant's. */
    public static final class NotHeld extends Exception {}

    /** It certainly did not happen. */
    public static final class Failed extends Exception {
        public Failed(String why) {
            super(why);
        }
    }

    /** No server answered. */
    public static final class Unreachable extends Exception {
        public Unreachable(String why) {
            super(why);
        }
    }

    private record Ending(String name, Map<String, ?> body) {}

    private static final Ending OK = new Ending("ok", Map.of());
    private static final PrintStream OUT = System.out;
    private static final ExecutorService POOL = Executors.newCachedThreadPool();
    private static final ScheduledExecutorService TIMER = Executors.newSingleThreadScheduledExecutor();
    private static final Map<String, Grant> GRANTS = new ConcurrentHashMap<>();
    private static final Map<Long, Request> CALLS = new ConcurrentHashMap<>();
    private static final AtomicLong NUMBER = new AtomicLong();
    private static Library library;
    private static Hello hello;

    private LocklabDriver() {}

    /** Answers locklab until it says bye or its input ends, and then ends the process. */
    public static void serve(Library served) throws Exception {
        library = served;
        // What a library prints is log.
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Asked asked;
            try {
                asked = new Asked(new Json(line).object());
            } catch (RuntimeException wrong) {
                System.err.println("not a request: " + wrong + ": " + line);
                Runtime.getRuntime().halt(1);
                return;
            }
            switch (asked.text("op")) {
                case "hello" -> reply(asked, greet(asked));
                case "bye" -> {
                    reply(asked, OK);
                    Runtime.getRuntime().halt(0);
                }
                case "cancel" -> {
                    Request call = CALLS.get(asked.number("of", -1));
                    if (call != null) {
                        call.cancel();
                    }
                    reply(asked, OK);
                }
                default -> {
                    // Known before the next line is read, which may cancel it.
                    Request call = new Request();
                    CALLS.put(asked.id(), call);
                    POOL.execute(() -> stage(() -> answer(asked, call)).whenComplete((ending, error) -> {
                        CALLS.remove(asked.id());
                        reply(asked, error == null ? ending : ending(error, asked.text("op").equals("acquire") ? "not_held" : "busy"));
                        call.told.complete(null);
                    }));
                }
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static void reply(Asked asked, Ending ending) {
        say(new LinkedHashMap<>(Map.of("id", asked.id(), ending.name, ending.body)));
    }

    private static void say(Map<String, ?> line) {
        StringBuilder text = new StringBuilder();
        Json.write(line, text);
        byte[] bytes = text.append('\n').toString().getBytes(StandardCharsets.UTF_8);
        synchronized (OUT) {
            OUT.write(bytes, 0, bytes.length);
            OUT.flush();
        }
    }

    private static Ending failed(String why) {
        return new Ending("failed", Map.of("error", why));
    }

    private static Ending greet(Asked asked) {
        if (asked.number("protocol", 0) != 1) {
            return failed("this driver speaks version 1");
        }
        try {
            Asked options = new Asked(asked.fields.get("options") instanceof Map<?, ?> given ? given : Map.of());
            hello = target(asked.text("target"), asked, options);
            if (!library.topologies.contains(hello.shape)) {
                String why = library.name + " works on " + String.join(", ", library.topologies) + ", not on " + hello.shape;
                return new Ending("failed", Map.of("error", why, "not_applicable", true));
            }
            library.connect(hello);
        } catch (Exception error) {
            hello = null;
            return error instanceof Unreachable
                    ? new Ending("failed", Map.of("error", error.getMessage(), "unreachable", true)) : failed(said(error));
        }
        List<String> features = new ArrayList<>(List.of("load", "prefix", "overlap", "mono", "cancel"));
        features.addAll(library.features);
        if (!library.runsOn.isEmpty()) {
            features.add("block");
        }
        Map<String, Object> body = new LinkedHashMap<>(Map.of("protocol", 1, "name", library.name, "version", library.version,
                "language", "java", "kinds", library.kinds, "topologies", library.topologies, "features", features));
        if (library.watchdogMs > 0) {
            body.put("watchdog_ms", library.watchdogMs);
        }
        if (!library.leaseless.isEmpty()) {
            body.put("leaseless", library.leaseless);
        }
        return new Ending("ok", body);
    }

    /** Takes a target's URL apart. */
    private static Hello target(String url, Asked asked, Asked options) throws Failed {
        int colon = url.indexOf("://");
        String scheme = url.substring(0, Math.max(colon, 0)), rest = url.substring(colon + 3), user = "", password = "", path = "", tlsCa = "";
        String shape = switch (scheme) {
            case "redis", "rediss" -> "single";
            case "redis-sentinel", "rediss-sentinel" -> "sentinel";
            case "redis-cluster", "rediss-cluster" -> "cluster";
            case "redlock", "redlocks" -> "masters";
            case "zookeeper" -> "zookeeper";
            default -> throw new Failed("the target's scheme `" + scheme + "` is unknown");
        };
        int mark = rest.indexOf('?');
        if (mark >= 0) {
            for (String setting : rest.substring(mark + 1).split("&")) {
                tlsCa = setting.startsWith("tls-ca=") ? unescaped(setting.substring("tls-ca=".length())) : tlsCa;
            }
            rest = rest.substring(0, mark);
        }
        int at = rest.lastIndexOf('@');
        if (at >= 0) {
            String[] who = rest.substring(0, at).split(":", 2);
            user = unescaped(who[0]);
            password = who.length > 1 ? unescaped(who[1]) : "";
            rest = rest.substring(at + 1);
        }
        int slash = rest.indexOf('/');
        if (slash >= 0) {
            path = rest.substring(slash + 1);
            rest = rest.substring(0, slash);
        }
        String port = shape.equals("sentinel") ? ":26379" : shape.equals("zookeeper") ? ":2181" : ":6379";
        List<String> hosts = new ArrayList<>();
        for (String host : rest.split(",")) {
            hosts.add(host.matches(".*:\\d+") ? host : host + port);
        }
        return new Hello(url, shape, hosts, user, password, path, scheme.startsWith("rediss") || scheme.equals("redlocks"), tlsCa,
                asked.text("client"), asked.number("seed", 0), options.text("durability"), options.number("watchdog_ms", 0));
    }

    private static String unescaped(String text) {
        return URLDecoder.decode(text.replace("+", "%2B"), StandardCharsets.UTF_8);
    }

    private static CompletionStage<Ending> answer(Asked asked, Request call) throws Exception {
        String op = asked.text("op");
        if (hello == null) {
            throw new Failed("say hello first");
        }
        if (op.equals("acquire") || op.equals("load")) {
            call.kind = asked.text("kind").isEmpty() ? library.kinds.get(0) : asked.text("kind");
            if (!library.kinds.contains(call.kind)) {
                throw new Failed("the kinds are " + String.join(", ", library.kinds) + ", not " + call.kind);
            }
            call.leaseMs = asked.number("lease_ms", 0);
            if (call.leaseMs == 0 && library.watchdogMs == 0 && !library.leaseless.contains(call.kind)) {
                throw new Failed(library.name + " does not renew a lock by itself");
            }
            return op.equals("load") ? CompletableFuture.completedFuture(new Loop(asked, call).run()) : grant(asked, call);
        }
        if (op.equals("block") && !library.runsOn.isEmpty()) {
            return CompletableFuture.completedFuture(block(System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(asked.number("for_ms", 0))));
        }
        if (!List.of("release", "extend", "held").contains(op)) {
            throw new Failed("`" + op + "` is not offered");
        }
        Grant grant = GRANTS.get(asked.text("grant"));
        if (grant == null && op.equals("held")) {
            return CompletableFuture.completedFuture(new Ending("ok", Map.of("held", false)));
        }
        if (grant == null) {
            // It was released, or is nobody's.
            throw new NotHeld();
        }
        switch (op) {
            case "held":
                return CompletableFuture.completedFuture(new Ending("ok", Map.of("held", !grant.lost && grant.held())));
            case "extend":
                return LocklabDriver.<Ending>interruptible(call, () -> {
                    grant.extend(asked.number("lease_ms", 0));
                    return CompletableFuture.completedFuture(OK);
                });
            default:
                return interruptible(call, grant::releaseAsync).handle((done, error) -> {
                    Ending ending = error == null ? OK : ending(error, "busy");
                    if (ending.name.equals("ok") || ending.name.equals("not_held")) {
                        GRANTS.remove(asked.text("grant"));
                    }
                    return ending;
                });
        }
    }

    /** Blocks each thread of the library's until then, and measures beside them for how long nothing ran on any. */
    private static Ending block(long untilNs) throws InterruptedException {
        for (Executor one : library.runsOn) {
            one.execute(() -> {
                for (long left; (left = untilNs - System.nanoTime()) > 0;) {
                    LockSupport.parkNanos(left);
                }
            });
        }
        long longest = 0;
        for (long asked; (asked = System.nanoTime()) < untilNs;) {
            CountDownLatch ran = new CountDownLatch(1);
            library.runsOn.forEach(one -> one.execute(ran::countDown));
            ran.await();
            longest = Math.max(longest, System.nanoTime() - asked);
        }
        return new Ending("ok", Map.of("blocked_ns", longest));
    }

    private static CompletionStage<Ending> grant(Asked asked, Request call) {
        String name = "g" + NUMBER.incrementAndGet();
        call.grant = name;
        call.locks = new ArrayList<>();
        if (asked.fields.get("locks") instanceof List<?> names) {
            names.forEach(lock -> call.locks.add((String) lock));
        } else {
            call.locks.add(asked.text("lock"));
        }
        call.lock = call.locks.get(0);
        call.owner = asked.text("owner").isEmpty() ? "of " + name : asked.text("owner");
        call.waitMs = asked.number("wait_ms", Request.FOREVER);
        call.permits = (int) asked.number("permits", 1);
        return interruptible(call, () -> library.acquireAsync(call)).thenApply(grant -> {
            // On Linux this is CLOCK_MONOTONIC.
            long returned = System.nanoTime();
            GRANTS.put(name, grant);
            Map<String, Object> body = new LinkedHashMap<>(Map.of("grant", name, "returned_mono_ns", returned));
            if (grant.token != null) {
                body.put("token", grant.token);
            }
            if (grant.sentNs != 0) {
                body.put("sent_mono_ns", grant.sentNs);
            }
            if (grant.leaseMs != 0) {
                body.put("lease_ms", grant.leaseMs);
            }
            return new Ending("ok", body);
        });
    }

    /** What a call gives, or throws. While it blocks, giving the request up interrupts it, unless its library has a way of its own. */
    private static <T> CompletionStage<T> interruptible(Request call, Callable<CompletionStage<? extends T>> called) {
        AtomicReference<Thread> blocked = new AtomicReference<>(Thread.currentThread());
        call.onCancel(() -> {
            synchronized (blocked) {
                if (blocked.get() != null) {
                    blocked.get().interrupt();
                }
            }
        });
        CompletionStage<T> stage = stage(called);
        synchronized (blocked) {
            blocked.set(null);
            // It must not meet the thread's next request.
            Thread.interrupted();
        }
        return stage;
    }

    private static <T, S extends CompletionStage<? extends T>> CompletionStage<T> stage(Callable<S> called) {
        try {
            return called.call().thenApply(value -> value);
        } catch (Throwable error) {
            return CompletableFuture.failedFuture(error);
        }
    }

    /** The ending that an error stands for; one that such a call does not have is unknown. */
    private static Ending ending(Throwable error, String not) {
        while (error instanceof CompletionException && error.getCause() != null) {
            error = error.getCause();
        }
        if (error instanceof Busy && !not.equals("busy")) {
            return new Ending("busy", Map.of());
        }
        if (error instanceof NotHeld && !not.equals("not_held")) {
            return new Ending("not_held", Map.of());
        }
        return error instanceof Failed ? failed(error.getMessage()) : new Ending("unknown", Map.of("error", said(error)));
    }

    private static String said(Throwable error) {
        return error instanceof Failed ? error.getMessage() : error.toString();
    }

    /** The closed loop; times are nanoseconds since it began. */
    private static final class Loop {
        static final long WAIT_MS = 60_000, END_MS = 10_000;
        static final int NESTED_MAX = 30;
        final String workload;
        final Request like;
        final int tasks;
        final long from, to, holdUs, thinkUs, begun = System.nanoTime();
        final boolean shared;
        final Spot[] spots;
        final AtomicLongArray cycles;
        final AtomicLong failed = new AtomicLong(), unknown = new AtomicLong();
        final Histogram acquired = new Histogram(), released = new Histogram(), handoff = new Histogram(), other = new Histogram();
        final AtomicReference<String> overlap = new AtomicReference<>();
        final CountDownLatch running;

        /** One lock: who released it last and when, how many hold it, and what the next grant completes. */
        static final class Spot {
            String name;
            long sent = -1;
            int releaser, holders;
            CompletableFuture<Void> next = new CompletableFuture<>();
        }

        Loop(Asked asked, Request call) throws Failed {
            workload = asked.text("workload");
            if (!List.of("cycles", "contended", "chain").contains(workload)) {
                throw new Failed("the workloads are cycles, contended and chain, not `" + workload + "`");
            }
            like = call;
            tasks = (int) asked.number("tasks", 0);
            int locks = workload.equals("cycles") ? (int) asked.number("locks", tasks) : 1;
            if (tasks < 1 || locks < 1 || asked.number("measure_ms", 0) < 1) {
                throw new Failed("a load needs tasks, locks and measure_ms");
            }
            from = TimeUnit.MILLISECONDS.toNanos(asked.number("warmup_ms", 0));
            to = from + TimeUnit.MILLISECONDS.toNanos(asked.number("measure_ms", 0));
            holdUs = asked.number("hold_us", 0);
            thinkUs = asked.number("think_us", 0);
            shared = List.of("read", "semaphore", "permits").contains(call.kind);
            String prefix = asked.text("prefix").isEmpty() ? "locklab-load:" : asked.text("prefix");
            spots = new Spot[locks];
            for (int i = 0; i < locks; i++) {
                spots[i] = new Spot();
                // An earlier loop's leftovers are not met.
                spots[i].name = prefix + hello.client + ":" + ProcessHandle.current().pid() + ":" + i;
            }
            cycles = new AtomicLongArray(tasks);
            running = new CountDownLatch(tasks);
        }

        Ending run() throws Exception {
            for (int i = 0; i < tasks; i++) {
                Task task = new Task(i);
                POOL.execute(task::begin);
            }
            sleepUntil(from);
            long cpu = cpuNs();
            sleepUntil(to);
            cpu = cpuNs() - cpu;
            for (Spot spot : spots) {
                synchronized (spot) {
                    spot.next.complete(null);
                }
            }
            running.await(END_MS, TimeUnit.MILLISECONDS);
            List<Long> perTask = new ArrayList<>();
            long sum = 0;
            for (int i = 0; i < tasks; i++) {
                perTask.add(cycles.get(i));
                sum += cycles.get(i);
            }
            Map<String, Object> body = new LinkedHashMap<>(Map.of("cycles", sum, "failed", failed.get(), "unknown", unknown.get(),
                    "elapsed_ns", to - from, "client_cpu_ns", cpu, "per_task", perTask, "acquire_hist", acquired.encoded(),
                    "release_hist", released.encoded()));
            if (!workload.equals("cycles") && !shared) {
                body.put("handoff_hist", handoff.encoded());
                body.put("handoff_other_hist", other.encoded());
            }
            if (overlap.get() != null) {
                body.put("overlap", overlap.get());
            }
            return new Ending("ok", body);
        }

        long now() {
            return System.nanoTime() - begun;
        }

        void sleepUntil(long at) throws InterruptedException {
            TimeUnit.NANOSECONDS.sleep(at - now());
        }

        boolean counts(long at) {
            return at >= from && at < to;
        }

        void later(long us, Runnable step) {
            if (us == 0) {
                step.run();
            } else {
                TIMER.schedule(() -> POOL.execute(step), us, TimeUnit.MICROSECONDS);
            }
        }

        /** One task: each step begins the next when its answer is there, on the thread that brings it. */
        final class Task {
            final int number;
            final Spot spot;
            final Request asked = new Request();
            long called, got, sent;
            int nested;
            CompletableFuture<Void> next;

            Task(int number) {
                this.number = number;
                spot = spots[number % spots.length];
                asked.lock = spot.name;
                asked.locks = List.of(spot.name);
                asked.kind = like.kind;
                asked.owner = "load" + number;
                asked.waitMs = WAIT_MS;
                asked.leaseMs = like.leaseMs;
            }

            void begin() {
                if (now() >= to) {
                    running.countDown();
                } else if (++nested > NESTED_MAX) {
                    // A library that blocks answers before it returns, and would fill the stack.
                    nested = 0;
                    POOL.execute(this::begin);
                } else {
                    called = now();
                    LocklabDriver.<Grant, CompletionStage<? extends Grant>>stage(() -> library.acquireAsync(asked)).whenComplete(this::acquired);
                }
            }

            void acquired(Grant grant, Throwable error) {
                got = now();
                if (error != null) {
                    fault(error);
                    later(1_000, this::begin);
                    return;
                }
                CompletableFuture<Void> waited;
                synchronized (spot) {
                    if (++spot.holders > 1 && !shared) {
                        overlap.compareAndSet(null, spot.holders + " held " + spot.name + " at once, " + got / 1_000_000 + " ms after the loop began");
                    }
                    if (spot.sent >= 0 && counts(got)) {
                        handoff.record(got - spot.sent);
                        if (spot.releaser != number) {
                            other.record(got - spot.sent);
                        }
                    }
                    waited = spot.next;
                    next = spot.next = new CompletableFuture<>();
                    if (now() >= to) {
                        next.complete(null);
                    }
                }
                waited.complete(null);
                later(holdUs, () -> giveBack(grant));
            }

            void giveBack(Grant grant) {
                synchronized (spot) {
                    spot.holders--;
                    spot.sent = sent = now();
                    spot.releaser = number;
                }
                LocklabDriver.<Object, CompletionStage<?>>stage(grant::releaseAsync).whenComplete(this::released);
            }

            void released(Object nothing, Throwable error) {
                long done = now();
                if (error != null) {
                    fault(error);
                } else if (counts(done)) {
                    cycles.incrementAndGet(number);
                    acquired.record(got - called);
                    released.record(done - sent);
                }
                if (workload.equals("chain") && tasks > 1) {
                    next.thenRun(() -> POOL.execute(() -> later(thinkUs, this::begin)));
                } else {
                    later(thinkUs, this::begin);
                }
            }

            void fault(Throwable error) {
                if (counts(now())) {
                    (ending(error, "").name.equals("unknown") ? unknown : failed).incrementAndGet();
                }
            }
        }

        static long cpuNs() {
            return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
        }
    }

    /** Values up to an hour, in nanoseconds, with three significant digits: HdrHistogram's buckets. */
    private static final class Histogram {
        static final long MOST_NS = TimeUnit.HOURS.toNanos(1);
        final AtomicLongArray counts = new AtomicLongArray(33 << 10);

        void record(long ns) {
            ns = Math.min(Math.max(ns, 0), MOST_NS);
            int bucket = 53 - Long.numberOfLeadingZeros(ns | 2047);
            counts.incrementAndGet((bucket << 10) + (int) (ns >> bucket));
        }

        /** HdrHistogram V2, compressed, in base64. */
        String encoded() throws Exception {
            ByteArrayOutputStream body = new ByteArrayOutputStream();
            long zeros = 0;
            for (int i = 0; i < counts.length(); i++) {
                long count = counts.get(i);
                if (count == 0) {
                    zeros++;
                    continue;
                }
                if (zeros > 0) {
                    zigzag(-zeros, body);
                    zeros = 0;
                }
                zigzag(count, body);
            }
            ByteBuffer plain = ByteBuffer.allocate(40 + body.size());
            plain.putInt(0x1c849313).putInt(body.size()).putInt(0).putInt(3).putLong(1).putLong(MOST_NS).putDouble(1).put(body.toByteArray());
            ByteArrayOutputStream packed = new ByteArrayOutputStream();
            try (DeflaterOutputStream z = new DeflaterOutputStream(packed)) {
                z.write(plain.array());
            }
            ByteBuffer text = ByteBuffer.allocate(8 + packed.size());
            text.putInt(0x1c849314).putInt(packed.size()).put(packed.toByteArray());
            return Base64.getEncoder().encodeToString(text.array());
        }

        /** Seven bits at a time, at most nine bytes; a negative number is so many zeros. */
        static void zigzag(long number, ByteArrayOutputStream to) {
            long left = (number << 1) ^ (number >> 63);
            while (left >>> 7 != 0) {
                to.write((int) (left & 0x7f | 0x80));
                left >>>= 7;
            }
            to.write((int) left);
        }
    }

    /** A line from locklab. An absent field and null are the same. */
    private record Asked(Map<?, ?> fields) {
        long id() {
            return number("id", 0);
        }

        String text(String name) {
            return fields.get(name) instanceof String text ? text : "";
        }

        long number(String name, long otherwise) {
            return fields.get(name) instanceof Number number ? number.longValue() : otherwise;
        }
    }

    /** As much of JSON as the protocol needs. */
    private static final class Json {
        private final String text;
        private int at;

        Json(String text) {
            this.text = text;
        }

        Map<?, ?> object() {
            Object value = value();
            if (value instanceof Map<?, ?> object && next() == 0) {
                return object;
            }
            throw wrong();
        }

        private RuntimeException wrong() {
            return new IllegalArgumentException("no JSON object, at " + at);
        }

        /** The next character that is no space, 0 at the end. */
        private char next() {
            while (at < text.length() && Character.isWhitespace(text.charAt(at))) {
                at++;
            }
            return at < text.length() ? text.charAt(at) : 0;
        }

        private boolean takes(char wanted) {
            boolean there = next() == wanted;
            at += there ? 1 : 0;
            return there;
        }

        private Object value() {
            if (takes('{')) {
                Map<String, Object> object = new LinkedHashMap<>();
                while (!takes('}')) {
                    if (!object.isEmpty() && !takes(',') || !takes('"')) {
                        throw wrong();
                    }
                    String name = string();
                    if (!takes(':')) {
                        throw wrong();
                    }
                    object.put(name, value());
                }
                return object;
            }
            if (takes('[')) {
                List<Object> list = new ArrayList<>();
                while (!takes(']')) {
                    if (!list.isEmpty() && !takes(',')) {
                        throw wrong();
                    }
                    list.add(value());
                }
                return list;
            }
            if (takes('"')) {
                return string();
            }
            int from = at;
            while (at < text.length() && "+-.".indexOf(text.charAt(at)) >= 0 || at < text.length() && Character.isLetterOrDigit(text.charAt(at))) {
                at++;
            }
            String word = text.substring(from, at);
            return switch (word) {
                case "true", "false" -> Boolean.valueOf(word);
                case "null" -> null;
                default -> new java.math.BigDecimal(word);
            };
        }

        private String string() {
            StringBuilder string = new StringBuilder();
            while (at < text.length()) {
                char c = text.charAt(at++);
                if (c == '"') {
                    return string.toString();
                }
                if (c == '\\' && at < text.length()) {
                    c = text.charAt(at++);
                    int known = "bfnrt".indexOf(c);
                    if (c == 'u' && at + 4 <= text.length()) {
                        c = (char) Integer.parseInt(text.substring(at, at + 4), 16);
                        at += 4;
                    } else if (known >= 0) {
                        c = "\b\f\n\r\t".charAt(known);
                    }
                }
                string.append(c);
            }
            throw wrong();
        }

        static void write(Object value, StringBuilder to) {
            if (value instanceof Map<?, ?> object) {
                String comma = "{";
                for (Map.Entry<?, ?> entry : object.entrySet()) {
                    to.append(comma);
                    write(entry.getKey(), to);
                    to.append(':');
                    write(entry.getValue(), to);
                    comma = ",";
                }
                to.append(object.isEmpty() ? "{}" : "}");
            } else if (value instanceof List<?> list) {
                String comma = "[";
                for (Object entry : list) {
                    to.append(comma);
                    write(entry, to);
                    comma = ",";
                }
                to.append(list.isEmpty() ? "[]" : "]");
            } else if (value instanceof String string) {
                to.append('"');
                for (char c : string.toCharArray()) {
                    if (c == '"' || c == '\\') {
                        to.append('\\').append(c);
                    } else if (c < ' ') {
                        to.append(String.format("\\u%04x", (int) c));
                    } else {
                        to.append(c);
                    }
                }
                to.append('"');
            } else {
                to.append(value);
            }
        }
    }
}
