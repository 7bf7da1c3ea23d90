// A driver of Curator's InterProcessMutex, the reference of ZooKeeper's lock recipe: an ephemeral sequential node for each acquire, in one session
// per client. The mutex is its thread's, so each owner has a thread, which acquires and releases; an owner that waits for one lock can
// release none meanwhile. The fencing token is the czxid of the holder's node, from the answer to its creation (or a question, where that was lost).
// ZooKeeper knows no lease: the session keeps the lock, and where a lease is asked for, the driver gives the lock back when it is over.
// Curator notifies of a connection that is gone (SUSPENDED), and says that nobody can be certain of the lock from then on: that is reported as lost.

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.StandardLockInternalsDriver;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.data.Stat;

public final class CuratorDriver extends LocklabDriver.Library {
    static final int SESSION_MS = 10_000;
    final Map<String, ExecutorService> owners = new ConcurrentHashMap<>();
    final Map<String, Mutex> mutexes = new ConcurrentHashMap<>();
    final Set<LocklabDriver.Request> holds = ConcurrentHashMap.newKeySet();
    CuratorFramework client;

    public static void main(String[] args) throws Exception {
        LocklabDriver.serve(new CuratorDriver());
    }

    CuratorDriver() {
        name = "Curator";
        version = "5.9.0, InterProcessMutex";
        kinds = List.of("reentrant");
        topologies = List.of("zookeeper", "zookeeper-3");
        // A release that finds its node gone says nothing of it.
        features = List.of("release_blind");
    }

    @Override
    public void connect(LocklabDriver.Hello hello) throws Exception {
        int sessionMs = hello.watchdogMs() > 0 ? (int) hello.watchdogMs() : SESSION_MS;
        client = CuratorFrameworkFactory.newClient(String.join(",", hello.hosts()), sessionMs, sessionMs, new ExponentialBackoffRetry(100, 3));
        client.getConnectionStateListenable().addListener((of, state) -> {
            if (state == ConnectionState.SUSPENDED || state == ConnectionState.LOST) {
                holds.forEach(hold -> hold.lost("Curator says " + state));
            }
        });
        client.start();
        if (!client.blockUntilConnected(10, TimeUnit.SECONDS)) {
            throw new LocklabDriver.Unreachable("no server answers");
        }
        watchdogMs = client.getZookeeperClient().getZooKeeper().getSessionTimeout();
    }

    /** A lock of this client, which remembers the number that the server gave the holder's node. */
    static final class Mutex extends InterProcessMutex {
        final Node node;

        Mutex(CuratorFramework client, String path, Node node) {
            super(client, path, node);
            this.node = node;
        }

        /** Of the calling thread's hold. */
        long token(CuratorFramework client) throws Exception {
            long czxid = node.created.get().getCzxid();
            return czxid > 0 ? czxid : client.checkExists().forPath(getLockPath()).getCzxid();
        }
    }

    /** Creates a node as the library's own does, and keeps what the answer says of it. */
    static final class Node extends StandardLockInternalsDriver {
        final ThreadLocal<Stat> created = ThreadLocal.withInitial(Stat::new);

        @Override
        public String createsTheLock(CuratorFramework client, String path, byte[] data) throws Exception {
            created.set(new Stat());
            var create = client.create().storingStatIn(created.get()).creatingParentContainersIfNeeded().withProtection()
                .withMode(CreateMode.EPHEMERAL_SEQUENTIAL);
            return data != null ? create.forPath(path, data) : create.forPath(path);
        }
    }

    Mutex mutex(String lock) {
        return mutexes.computeIfAbsent(lock, of -> new Mutex(client, "/locklab/" + of.replace('/', '|'), new Node()));
    }

    @Override
    public CompletionStage<LocklabDriver.Grant> acquireAsync(LocklabDriver.Request asked) {
        ExecutorService thread = owners.computeIfAbsent(asked.owner, owner -> Executors.newSingleThreadExecutor());
        CompletableFuture<LocklabDriver.Grant> granted = new CompletableFuture<>();
        Future<?> call = thread.submit(() -> {
            try {
                granted.complete(take(asked, thread));
            } catch (Throwable error) {
                granted.completeExceptionally(error);
            }
        });
        asked.onCancel(() -> call.cancel(true));
        return granted;
    }

    LocklabDriver.Grant take(LocklabDriver.Request asked, ExecutorService thread) throws Exception {
        Mutex mutex = mutex(asked.lock);
        if (!mutex.acquire(asked.waitMs, TimeUnit.MILLISECONDS)) {
            throw new LocklabDriver.Busy();
        }
        holds.add(asked);
        LocklabDriver.Grant grant = new LocklabDriver.Grant() {
            @Override
            public CompletionStage<?> releaseAsync() {
                return CompletableFuture.runAsync(() -> give(asked, mutex), thread);
            }
        };
        if (asked.leaseMs > 0) {
            CompletableFuture.delayedExecutor(asked.leaseMs, TimeUnit.MILLISECONDS, thread).execute(() -> give(asked, mutex));
        }
        grant.token = mutex.token(client);
        return grant;
    }

    /** Once: a re-entrant lock is the thread's still, where another grant of it is there. */
    void give(LocklabDriver.Request asked, Mutex mutex) {
        try {
            if (!holds.remove(asked)) {
                throw new IllegalMonitorStateException();
            }
            mutex.release();
        } catch (IllegalMonitorStateException not) {
            throw new CompletionException(new LocklabDriver.NotHeld());
        } catch (Exception error) {
            throw new CompletionException(error);
        }
    }
}
