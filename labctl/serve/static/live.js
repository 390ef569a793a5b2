"use strict";
// Asks every now and then whether something changed, and puts it in its place.

const LOOK_EVERY = 2000;
const live = document.getElementById("live");
let shown = "";

async function drawLast() {
  const stand = document.getElementById("stand");
  const item = stand.dataset.last;
  if (!item || item === shown) return;
  shown = item;
  document.getElementById("last").hidden = false;
  const link = document.getElementById("last-link");
  link.textContent = stand.dataset.lastName;
  link.href = live.dataset.items + item;
  await drawWaveform(document.getElementById("last-waveform"), `${live.dataset.items}${item}/`);
}

async function look() {
  try {
    const stand = document.getElementById("stand");
    const answer = await fetch(`${live.dataset.address}?since=${stand.dataset.number}`);
    if (answer.status === 200) {
      live.innerHTML = await answer.text();
      await drawLast();
    } else if (answer.status !== 204) {
      live.querySelector(".phase").textContent = "The server answers no more as it did: load the page again.";
    }
  } catch {
    live.querySelector(".phase").textContent = "The server does not answer.";
  }
  setTimeout(look, document.hidden ? 5 * LOOK_EVERY : LOOK_EVERY);
}

if (live.dataset.reload) {
  setTimeout(() => location.reload(), 10000);
} else {
  drawLast();
  setTimeout(look, LOOK_EVERY);
}
