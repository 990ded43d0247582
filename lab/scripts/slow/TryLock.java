import java.io.RandomAccessFile;
import java.nio.channels.FileLock;

/** Tries the lock of a file every 25 ms until it has it. */
class TryLock {
    public static void main(String[] words) throws Exception {
        try (RandomAccessFile file = new RandomAccessFile(words[0], "rw")) {
            FileLock lock;
            while ((lock = file.getChannel().tryLock()) == null) {
                Thread.sleep(25);
            }
            lock.release();
        }
    }
}
