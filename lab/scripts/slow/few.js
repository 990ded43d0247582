// few.js URL N SOCKETS: N requests, all of them at once, of which the agent lets as many through as it may have sockets.
const http = require("http");

const [url, times, sockets] = process.argv.slice(2);
const agent = new http.Agent({ keepAlive: true, maxSockets: Number(sockets) });
let answered = 0;
for (let number = 0; number < Number(times); number++) {
    http.get(`${url}${number}`, { agent }, (response) => {
        response.resume();
        response.on("end", () => {
            answered += 1;
            if (answered === Number(times)) {
                agent.destroy();
            }
        });
    });
}
