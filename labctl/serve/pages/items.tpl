% rebase("base.tpl", tab="Items")
% include("choice.tpl", address="items", asked=asked, quantity="", quantities={}, states=("done", "failed", "pending"))
<p>{{n_found}} of {{sight.state.n_items}} items{{"" if len(shown) == n_found else ", the first " + str(len(shown)) + " of them here"}}</p>
<div class="wide"><table id="found">
<thead><tr><th scope="col">item</th><th scope="col">state</th><th scope="col" class="n">attempts</th><th scope="col">role</th><th scope="col">result</th></tr></thead>
<tbody>
% for one, name, text in shown:
<tr><td><a href="/c/{{book.key}}/items/{{one.item.number}}">{{name}}</a></td><td class="{{one.state}}">{{one.state}}</td><td class="n">{{one.n_attempts}}</td><td>{{one.item.role}}</td><td class="v">{{text}}</td></tr>
% end
</tbody></table></div>
