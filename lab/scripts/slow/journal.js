// journal.js PORT PATH: answers HTTP, and has other work: it appends to PATH and syncs again and again, in the thread that answers.
const fs = require("fs");
const http = require("http");

const [port, path] = process.argv.slice(2);
const file = fs.openSync(path, "w");
const record = Buffer.alloc(4096);

function append() {
    fs.writeSync(file, record);
    fs.fdatasyncSync(file);
    setTimeout(append, 1);
}

http.createServer((_, answer) => answer.end("ok\n")).listen(port, "127.0.0.1", () => {
    console.log("ready");
    append();
});
