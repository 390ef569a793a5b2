% rebase("base.tpl", tab="Drift")
<form method="get" action="/c/{{book.key}}/drift">
<label>quantity <select name="quantity">
% for key, one in quantities.items():
<option value="{{key}}"{{!" selected" if key == quantity else ""}}>{{one.title}}</option>
% end
</select></label>
<button>Show</button>
</form>
<h2>Drift of the {{quantities[quantity].title}}</h2>
<p class="controls"><label>over <select id="over"><option value="utc">time</option><option value="order">order</option></select></label></p>
<div class="chart" id="drift" data-address="/c/{{book.key}}/drift.json?{{query(quantity=quantity)}}"></div>
<p class="faint">References and baselines, each over the mean of its series. Bars: standard error of the mean of its runs.</p>
