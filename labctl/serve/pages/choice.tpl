<form method="get" action="/c/{{book.key}}/{{address}}">
% if quantities:
<label>quantity <select name="quantity">
%   for key, one in quantities.items():
<option value="{{key}}"{{!" selected" if key == quantity else ""}}>{{one.title}}</option>
%   end
</select></label>
% end
% for name, values in (("board", sight.matrix.boards), ("operation", sight.matrix.operations), ("state", states)):
%   if values:
<label>{{name}} <select name="{{name}}"><option value="">all</option>
%     for value in values:
<option value="{{value}}"{{!" selected" if value == asked[name] else ""}}>{{value}}</option>
%     end
</select></label>
%   end
% end
<button>Show</button>
</form>
