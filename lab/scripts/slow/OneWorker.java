import java.io.FileOutputStream;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Answers every byte with a byte, after its only worker has written 64 KiB to a file and synced them. */
class OneWorker {
    public static void main(String[] words) throws Exception {
        ExecutorService worker = Executors.newFixedThreadPool(1);
        FileOutputStream file = new FileOutputStream(words[1]);
        ServerSocket server = new ServerSocket(Integer.parseInt(words[0]));
        System.out.println("ready");
        while (true) {
            Socket client = server.accept();
            client.setTcpNoDelay(true);
            new Thread(() -> serve(client, worker, file)).start();
        }
    }

    static void serve(Socket client, ExecutorService worker, FileOutputStream file) {
        try (client) {
            while (client.getInputStream().read() >= 0) {
                worker.submit(() -> store(file)).get();
                client.getOutputStream().write('!');
            }
        } catch (Exception reason) {
            System.err.println(reason);
        }
    }

    static Void store(FileOutputStream file) throws Exception {
        file.write(new byte[64 << 10]);
        file.getChannel().force(false);
        return null;
    }
}
