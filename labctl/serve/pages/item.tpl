% rebase("base.tpl", tab="Items")
<h2>{{name}}</h2>
<p>{{status.state}}{{"" if status.item.role == "item" else ", " + status.item.role}}</p>
<div class="wide"><table id="attempts">
<thead><tr><th scope="col" class="n">attempt</th><th scope="col">state</th><th scope="col">begun (UTC)</th><th scope="col" class="n">took</th><th scope="col">came to</th></tr></thead>
<tbody>
% for one, text in attempts:
<tr><td class="n">{{one.number}}</td><td class="{{one.state}}">{{one.state}}</td><td class="t">{{when(one.begun_utc)}}</td><td class="n">{{"%.3g s" % one.elapsed_s}}</td><td class="v">{{text}}</td></tr>
% end
</tbody></table></div>
% if reason:
<p class="failed">{{reason}}</p>
% end
% if identity:
<p>Instrument: {{identity.vendor}} {{identity.model}}, serial number {{identity.serial}}, firmware {{identity.firmware}}</p>
% end
% for warning in (status.last.row.get("warnings") or []) if status.last else []:
<p class="faint">{{warning}}</p>
% end
% if capture:
<h2>Waveform</h2>
<p class="controls"><button type="button" id="before">&lt; segment</button> <span id="segment"></span> <button type="button" id="after">segment &gt;</button> <button type="button" id="whole">whole segment</button></p>
<div class="chart" id="waveform" data-address="/c/{{book.key}}/items/{{status.item.number}}/"></div>
<p class="faint">Shaded: the windows. Grey: from the least to the greatest sample of each column; black: their mean. Drag to zoom, double-click for the whole.</p>
<p id="runs-reason" class="failed"></p>
<h2>Runs</h2>
<div class="chart" id="runs"></div>
% end
