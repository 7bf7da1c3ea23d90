// A driver of Redisson: its asynchronous calls, each with the owner's number in the place of a thread's, which is faster than its blocking
// ones; the native transport and as many threads as there are processors, which is faster than its defaults of 32 and 16 on few of them.
// Everything else is its default: a wait is notified by a message, the watchdog renews every third of lockWatchdogTimeout, and an acquire on
// a server with replicas waits for one. It has nothing to extend a lock with, and does not notify a holder that has lost it. It has no listener
// for renewals either: the command of its own renewal task is seen on its way, with the names that it renewed.

import java.io.FileInputStream;
import java.io.InputStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import javax.net.ssl.TrustManagerFactory;
import org.redisson.Redisson;
import org.redisson.RedissonFencedLock;
import org.redisson.RedissonMultiLock;
import org.redisson.RedissonRedLock;
import org.redisson.api.RFuture;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.command.CommandAsyncExecutor;
import org.redisson.config.Config;
import org.redisson.config.TransportMode;
import org.redisson.renewal.LockRenewalScheduler;

public final class RedissonDriver extends LocklabDriver.Library {
    static final TimeUnit MS = TimeUnit.MILLISECONDS;
    static final long LONG_MS = TimeUnit.DAYS.toMillis(10);
    final List<Redisson> clients = new ArrayList<>();
    final Map<String, Long> owners = new ConcurrentHashMap<>();
    final Map<String, CompletionStage<?>> totals = new ConcurrentHashMap<>();
    final AtomicLong number = new AtomicLong();
    /** Of what is renewed, the parts by the holder's name at the server and the key. */
    final Map<String, Set<Part>> renewed = new ConcurrentHashMap<>();

    public static void main(String[] args) throws Exception {
        LocklabDriver.serve(new RedissonDriver());
    }

    RedissonDriver() {
        name = "Redisson";
        version = "4.7.0, asynchronous, native transport";
        topologies = List.of("single", "sentinel", "cluster", "masters");
        leaseless = List.of("semaphore");
    }

    @Override
    public void connect(LocklabDriver.Hello hello) throws Exception {
        boolean masters = hello.shape().equals("masters");
        kinds = masters ? List.of("redlock") : List.of("reentrant", "fair", "read", "write", "fenced", "spin", "multi", "semaphore", "permits");
        features = masters ? List.of("redlock", "renewals") : List.of("reentrant", "renewals");
        watchdogMs = hello.watchdogMs() > 0 ? hello.watchdogMs() : new Config().getLockWatchdogTimeout();
        String scheme = hello.tls() ? "rediss://" : "redis://";
        String[] hosts = hello.hosts().stream().map(host -> scheme + host).toArray(String[]::new);
        int database = hello.path().matches("\\d+") ? Integer.parseInt(hello.path()) : 0;
        int threads = Math.max(2, Runtime.getRuntime().availableProcessors());
        for (String host : masters ? hosts : new String[] {hosts[0]}) {
            Config config = new Config().setTransportMode(TransportMode.EPOLL).setThreads(threads).setNettyThreads(threads)
                .setLockWatchdogTimeout(watchdogMs).setLazyInitialization(masters);
            if (!hello.tlsCa().isEmpty()) {
                config.setSslTrustManagerFactory(trust(hello.tlsCa()));
            }
            if (!hello.password().isEmpty()) {
                config.setUsername(hello.user().isEmpty() ? null : hello.user()).setPassword(hello.password());
            }
            switch (hello.shape()) {
                case "sentinel" -> config.useSentinelServers().setMasterName(hello.path()).addSentinelAddress(hosts).setCheckSentinelsList(false);
                case "cluster" -> config.useClusterServers().addNodeAddress(hosts);
                default -> config.useSingleServer().setAddress(host).setDatabase(database);
            }
            try {
                Redisson client = (Redisson) Redisson.create(config);
                see(client);
                clients.add(client);
            } catch (Exception error) {
                throw new LocklabDriver.Unreachable(error.toString());
            }
        }
        runsOn = new ArrayList<>();
        for (Redisson client : clients) {
            client.getServiceManager().getGroup().forEach(runsOn::add);
            runsOn.addAll(Collections.nCopies(threads, client.getServiceManager().getExecutor()));
        }
        // Of several masters some may be down; the others are connected now, and not by the first acquire.
        CompletableFuture<?>[] looks = clients.stream()
            .map(of -> CompletableFuture.supplyAsync(() -> of.getLock("locklab:hello").isLocked()).orTimeout(10, TimeUnit.SECONDS))
            .toArray(CompletableFuture<?>[]::new);
        CompletableFuture.allOf(looks).handle((done, error) -> null).join();
        if (Arrays.stream(looks).allMatch(CompletableFuture::isCompletedExceptionally)) {
            throw new LocklabDriver.Unreachable("no server answers");
        }
    }

    /** Sees the renewal task's own command: when it is sent, and the names in its answer, which are those that were renewed. */
    void see(Redisson client) throws ReflectiveOperationException {
        LockRenewalScheduler scheduler = client.getServiceManager().getRenewalScheduler();
        Field executor = LockRenewalScheduler.class.getDeclaredField("executor");
        executor.setAccessible(true);
        Object library = executor.get(scheduler);
        executor.set(scheduler, Proxy.newProxyInstance(getClass().getClassLoader(), new Class<?>[] {CommandAsyncExecutor.class}, (proxy, method, args) -> {
            long sentNs = System.nanoTime();
            Object result;
            try {
                result = method.invoke(library, args);
            } catch (InvocationTargetException error) {
                throw error.getCause();
            }
            if (method.getName().equals("syncedEval")) {
                ((RFuture<?>) result).thenAccept(keys -> {
                    for (Object key : (Collection<?>) keys) {
                        for (Object holder : (Object[]) args[5]) {
                            renewed.getOrDefault(holder + " " + key, Set.of()).forEach(part -> part.hold().renewed(part.number(), sentNs));
                        }
                    }
                });
            }
            return result;
        }));
    }

    /** One key of a hold at one server. */
    record Part(Renewed hold, int number) {}

    /** A hold that the library renews: it lasts as long as the last `need` of its parts do. */
    static final class Renewed {
        final LocklabDriver.Request asked;
        final long leaseMs;
        final long[] sent;
        final int need;
        long said;

        Renewed(LocklabDriver.Request asked, long leaseMs, int parts, int need) {
            this.asked = asked;
            this.leaseMs = leaseMs;
            this.need = need;
            sent = new long[parts];
        }

        synchronized void renewed(int part, long sentNs) {
            sent[part] = sentNs;
            long[] sorted = sent.clone();
            Arrays.sort(sorted);
            long all = sorted[sorted.length - need];
            if (all > said) {
                said = all;
                asked.extended(leaseMs, all);
            }
        }
    }

    /** From now on renewals of this hold are reported; what is given back ends it. */
    Runnable report(LocklabDriver.Request asked, long owner) {
        List<String> keys = asked.kind.equals("multi") ? asked.locks : List.of(asked.lock);
        List<Redisson> servers = asked.kind.equals("redlock") ? clients : clients.subList(0, 1);
        int parts = keys.size() * servers.size();
        Renewed hold = new Renewed(asked, watchdogMs, parts, servers.size() > 1 ? servers.size() / 2 + 1 : parts);
        List<Runnable> ends = new ArrayList<>();
        for (Redisson server : servers) {
            for (String key : keys) {
                String holder = server.getServiceManager().getId() + ":" + owner + (asked.kind.equals("write") ? ":write" : "");
                Set<Part> of = renewed.computeIfAbsent(holder + " " + key, name -> ConcurrentHashMap.newKeySet());
                Part part = new Part(hold, ends.size());
                of.add(part);
                ends.add(() -> of.remove(part));
            }
        }
        return () -> ends.forEach(Runnable::run);
    }

    /** The one authority in a PEM file. */
    static TrustManagerFactory trust(String file) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null);
        try (InputStream pem = new FileInputStream(file)) {
            store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(pem));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        return trust;
    }

    @Override
    public CompletionStage<? extends LocklabDriver.Grant> acquireAsync(LocklabDriver.Request asked) {
        long owner = owners.computeIfAbsent(asked.owner, name -> number.incrementAndGet());
        long waitMs = Math.min(asked.waitMs, LONG_MS), leaseMs = asked.leaseMs > 0 ? asked.leaseMs : -1;
        // Of one try this is when it was sent; of several, which of them succeeded is not said.
        long sent = waitMs == 0 ? System.nanoTime() : 0;
        RedissonClient client = clients.get(0);
        boolean renews = leaseMs < 0 && !asked.kind.equals("semaphore") && !asked.kind.equals("permits");
        Runnable end = renews ? report(asked, owner) : () -> {};
        return ask(client, asked, owner, waitMs, leaseMs, sent, end).whenComplete((grant, refused) -> {
            if (refused != null) {
                end.run();
            }
        });
    }

    CompletionStage<LocklabDriver.Grant> ask(RedissonClient client, LocklabDriver.Request asked, long owner, long waitMs, long leaseMs, long sent, Runnable end) {
        switch (asked.kind) {
            case "fenced":
                RedissonFencedLock fenced = (RedissonFencedLock) client.getFencedLock(asked.lock);
                return started(asked, fenced.tryLockAndGetTokenAsync(waitMs, leaseMs, MS, owner))
                    .thenCompose(token -> held(token != null, sent, token, end, () -> fenced.unlockAsync(owner)));
            case "semaphore":
                RSemaphore semaphore = client.getSemaphore(asked.lock);
                return total(asked, () -> semaphore.trySetPermitsAsync(asked.permits))
                    .thenCompose(done -> started(asked, semaphore.tryAcquireAsync(waitMs, MS)))
                    .thenCompose(got -> held(got, sent, null, end, semaphore::releaseAsync));
            case "permits":
                RPermitExpirableSemaphore permits = client.getPermitExpirableSemaphore(asked.lock);
                return total(asked, () -> permits.trySetPermitsAsync(asked.permits))
                    .thenCompose(done -> started(asked, permits.tryAcquireAsync(waitMs, leaseMs, MS)))
                    .thenCompose(id -> held(id != null, sent, null, end, () -> permits.releaseAsync(id)));
            default:
                RLock lock = lock(client, asked);
                return started(asked, lock.tryLockAsync(waitMs, leaseMs, MS, owner))
                    .thenCompose(got -> held(got, sent, null, end, () -> lock.unlockAsync(owner)));
        }
    }

    RLock lock(RedissonClient client, LocklabDriver.Request asked) {
        return switch (asked.kind) {
            case "fair" -> client.getFairLock(asked.lock);
            case "read" -> client.getReadWriteLock(asked.lock).readLock();
            case "write" -> client.getReadWriteLock(asked.lock).writeLock();
            case "spin" -> client.getSpinLock(asked.lock);
            case "multi" -> new RedissonMultiLock(asked.locks.stream().map(client::getLock).toArray(RLock[]::new));
            case "redlock" -> new RedissonRedLock(clients.stream().map(of -> of.getLock(asked.lock)).toArray(RLock[]::new));
            default -> client.getLock(asked.lock);
        };
    }

    static <T> RFuture<T> started(LocklabDriver.Request asked, RFuture<T> call) {
        asked.onCancel(() -> call.cancel(true));
        return call;
    }

    interface Call {
        CompletionStage<?> start();
    }

    /** Of a semaphore that is there already this changes nothing; once per name is enough. */
    CompletionStage<?> total(LocklabDriver.Request asked, Call set) {
        return totals.computeIfAbsent(asked.kind + " " + asked.lock, name -> set.start());
    }

    static CompletionStage<LocklabDriver.Grant> held(boolean got, long sent, Long fencing, Runnable end, Call release) {
        if (!got) {
            return CompletableFuture.failedFuture(new LocklabDriver.Busy());
        }
        LocklabDriver.Grant grant = new LocklabDriver.Grant() {
            @Override
            public CompletionStage<?> releaseAsync() {
                end.run();
                return release.start().exceptionally(error -> {
                    Throwable cause = error instanceof CompletionException ? error.getCause() : error;
                    boolean not = cause instanceof IllegalMonitorStateException || cause instanceof IllegalArgumentException;
                    throw new CompletionException(not ? new LocklabDriver.NotHeld() : cause);
                });
            }
        };
        grant.sentNs = sent;
        grant.token = fencing;
        return CompletableFuture.completedFuture(grant);
    }
}
