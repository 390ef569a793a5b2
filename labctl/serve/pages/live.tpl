% rebase("base.tpl", tab="Live")
<div id="live" data-address="/c/{{book.key}}/live" data-items="/c/{{book.key}}/items/">
% include("livepart.tpl")
</div>
<section id="last" hidden>
<h2>Last waveform</h2>
<p><a id="last-link" href="#"></a></p>
<div class="chart" id="last-waveform"></div>
</section>
