// state.js FILE N [once]: N updates of a state of 20,000 records, which is written whole after each (or, once, behind the last).
const fs = require("fs");

const [path, times, once] = process.argv.slice(2);
const records = Array.from({ length: 20000 }, (_, number) => `{"key": ${number}, "text": "what is kept of record ${number}"}`);
for (let number = 0; number < Number(times); number++) {
    records[number] = `{"key": ${number}, "text": "updated"}`;
    if (!once) {
        fs.writeFileSync(path, records.join("\n"));
    }
}
fs.writeFileSync(path, records.join("\n"));
