% rebase("base.tpl")
<div id="live" data-reload="1"></div>
<div class="wide"><table>
<thead><tr><th scope="col">campaign</th><th scope="col">how it stands</th><th scope="col" class="n">done</th><th scope="col" class="n">failed</th><th scope="col" class="n">items</th><th scope="col">begun (UTC)</th><th scope="col">bench</th></tr></thead>
<tbody>
% for one, sight in books:
<tr><td><a href="/c/{{one.key}}/">{{sight.state.name}}</a>
% if one.key != sight.state.name:
<br><span class="faint">{{one.key}}</span>
% end
</td><td>{{sight.phase}}</td><td class="n">{{sight.state.n_done}}</td><td class="n">{{sight.state.n_failed}}</td><td class="n">{{sight.state.n_items}}</td><td class="t">{{when(sight.campaign.created_utc)}}</td><td>{{"emulated (a model, not silicon)" if sight.emulated else ", ".join(str(bench.get("name")) for bench in sight.campaign.benches)}}</td></tr>
% end
</tbody></table></div>
% if not books:
<p>There is no campaign.</p>
% end
% for text in lost:
<p class="failed">{{text}}</p>
% end
