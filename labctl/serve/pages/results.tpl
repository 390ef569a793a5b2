% rebase("base.tpl", tab="Results")
<form method="get" action="/c/{{book.key}}/results">
<label>rows <select name="role">
% for one in roles:
<option value="{{one}}"{{!" selected" if one == role else ""}}>{{one}}s</option>
% end
</select></label>
<button>Show</button>
</form>
% for text in captions:
<p class="faint">{{text}}</p>
% end
% for sheet in sheets:
<div class="wide"><table class="results">
% if sheet["title"]:
<caption>{{sheet["title"]}}</caption>
% end
<thead><tr>
% for text, is_number in sheet["heads"]:
<th scope="col"{{!' class="n"' if is_number else ""}}>{{text}}</th>
% end
</tr></thead>
<tbody>
% for line in sheet["lines"]:
<tr>\\
% for text, is_number in line:
<td{{!' class="n"' if is_number else ""}}>{{text}}</td>\\
% end
</tr>
% end
</tbody></table></div>
% end
% if notes:
<ul>
% for text in notes:
<li>{{text}}</li>
% end
</ul>
% end
<p>As <code>labctl table</code> writes it: \\
% for format in ("csv", "json", "md", "tex", "html"):
<a href="/c/{{book.key}}/results.{{format}}?{{query(role=role)}}">{{format}}</a> \\
% end
</p>
