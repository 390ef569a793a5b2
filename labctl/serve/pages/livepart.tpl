<div id="stand" data-number="{{number}}" data-at-work="{{"yes" if sight.is_at_work else ""}}" data-last="{{last_item or ""}}" data-last-name="{{latest[0][1] if latest else ""}}">
% state = sight.state
<p class="phase"><strong>{{sight.phase}}</strong></p>
<progress max="{{max(1, state.n_items)}}" value="{{state.n_done + state.n_failed}}">{{state.n_done + state.n_failed}} of {{state.n_items}}</progress>
<p><span id="done">{{state.n_done}}</span> of <span id="items">{{state.n_items}}</span> items done, <span id="failed">{{state.n_failed}}</span> failed, <span id="pending">{{state.n_pending}}</span> to do</p>
% if pace:
<p>{{pace}}</p>
% end
% for one, name in running:
<p class="running">{{one.bench}}: <a href="/c/{{book.key}}/items/{{one.item}}">{{name}}</a>, attempt {{one.attempt}} since {{when(one.since_utc)}} UTC {{one.text}}</p>
% end
% if damage:
<p class="failed">{{damage}}</p>
% end
<h2>Boards and operations</h2>
<div class="wide"><table id="matrix" class="matrix">
<thead><tr><th scope="col">operation</th>
% for board in sight.matrix.boards:
<th scope="col">{{board}}</th>
% end
</tr></thead>
<tbody>
% for operation in sight.matrix.operations:
<tr><th scope="row">{{operation}}</th>
% for board in sight.matrix.boards:
%   cell = sight.matrix.cells.get((board, operation))
%   if cell is None:
<td class="none">not planned</td>
%   else:
<td class="{{cell.state}}"><a href="/c/{{book.key}}/items?{{query(board=board, operation=operation)}}">{{cell.text}}</a></td>
%   end
% end
</tr>
% end
</tbody></table></div>
% if latest:
<h2>Last results</h2>
<div class="wide"><table id="latest">
<thead><tr><th scope="col">item</th><th scope="col">energy, duration</th><th scope="col">ended (UTC)</th></tr></thead>
<tbody>
% for one, name, text in latest:
<tr><td><a href="/c/{{book.key}}/items/{{one.item}}">{{name}}</a></td><td class="v">{{text}}</td><td class="t">{{when(one.ended_utc)}}</td></tr>
% end
</tbody></table></div>
% end
% if failures:
<h2>Failures</h2>
<ul id="failures">
% for one, name in failures:
<li><a href="/c/{{book.key}}/items/{{one.item.number}}">{{name}}</a>, {{one.n_attempts}} {{"attempt" if one.n_attempts == 1 else "attempts"}}, {{one.last.failure}}: {{one.last.error}}</li>
% end
</ul>
%   if len(failures) < state.n_failed:
<p><a href="/c/{{book.key}}/items?state=failed">all {{state.n_failed}}</a></p>
%   end
% end
</div>
