% rebase("base.tpl", tab="Statistics")
% include("choice.tpl", address="statistics", asked={"board": board, "operation": operation, "state": ""}, quantity=quantity, quantities=quantities, states=())
<h2>{{quantities[quantity].title.capitalize()}} per operation</h2>
<div class="chart" id="statistics" data-address="/c/{{book.key}}/statistics.json?{{query(quantity=quantity, board=board, operation=operation)}}" data-items="/c/{{book.key}}/items/"></div>
<p id="more"></p>
<p class="faint">Bars: expanded uncertainty (95 %), where the quantity has one. The trigger's cost is removed.</p>
<h2>Spread of the runs</h2>
<div class="chart" id="spread"></div>
<p class="faint">Energy of the runs of each item over their mean: boxes from the lower to the upper quartile with the median, bars one standard deviation. An item's page shows each run.</p>
