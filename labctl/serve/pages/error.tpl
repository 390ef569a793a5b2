% rebase("base.tpl")
<p>{{said}}</p>
