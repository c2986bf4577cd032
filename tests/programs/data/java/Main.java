// Threads, processes, mapped files, sockets, garbage, a fault, file watching.
import java.io.*;
import java.net.*;
import java.nio.*;
import java.nio.channels.*;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;

public class Main {
    public static void main(String[] a) throws Exception {
        ExecutorService ex = Executors.newFixedThreadPool(8);
        List<Future<Long>> fs = new ArrayList<>();
        for (int i = 1; i <= 8; i++) {
            final int n = i;
            fs.add(ex.submit(() -> LongStream.range(0, 100000).map(x -> x * n).sum()));
        }
        long s = 0;
        for (Future<Long> f : fs) s += f.get();
        ex.shutdown();
        System.out.println("threads " + s);
        System.out.println("parallel " + IntStream.range(0, 1000).parallel().sum());
        Process p =
            new ProcessBuilder("sh", "-c", "read x; echo got $x; exit 3").redirectErrorStream(true).start();
        p.getOutputStream().write("it\n".getBytes());
        p.getOutputStream().close();
        System.out.println(new String(p.getInputStream().readAllBytes()).trim() + " " + p.waitFor());
        try (FileChannel c = FileChannel.open(Path.of("m"), StandardOpenOption.CREATE,
                 StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            MappedByteBuffer b = c.map(FileChannel.MapMode.READ_WRITE, 0, 4096);
            b.put(0, (byte) 65);
            b.force();
            c.lock().release();
        }
        System.out.println("mapped " + Files.readAllBytes(Path.of("m"))[0]);
        ServerSocketChannel ss = ServerSocketChannel.open().bind(new InetSocketAddress("127.0.0.1", 0));
        Thread t = new Thread(() -> {
            try (SocketChannel c = ss.accept()) {
                c.write(ByteBuffer.wrap("net".getBytes()));
            } catch (IOException e) { System.out.println(e); }
        }, "server");
        t.start();
        try (Socket c = new Socket("127.0.0.1", ss.socket().getLocalPort())) {
            System.out.println(new String(c.getInputStream().readAllBytes()));
        }
        t.join();
        byte[][] keep = new byte[64][];
        for (int i = 0; i < 2000; i++) keep[i % 64] = new byte[100000];
        System.gc();
        System.out.println("gc " + keep.length);
        try {
            int[] x = null;
            System.out.println(x[0]);
        } catch (NullPointerException e) { System.out.println("npe"); }
        try (WatchService w = FileSystems.getDefault().newWatchService()) {
            Path.of(".").register(w, StandardWatchEventKinds.ENTRY_CREATE);
            Files.writeString(Path.of("seen"), "");
            System.out.println(w.poll(30, TimeUnit.SECONDS).pollEvents().get(0).context());
        }
        System.out.println(Main.class.getResource("Main.class").getProtocol() + " "
            + Runtime.version().feature() / 10 + " " + (Runtime.getRuntime().availableProcessors() > 0) + " "
            + System.getProperty("user.home").equals(System.getenv("HOME")));
        System.exit(5);
    }
}
