% rebase("base.tpl")
<p id="said">This page needs the token that <code>labctl serve</code> printed.</p>
<form id="form">
<label>token <input id="token" type="password" autocomplete="off" spellcheck="false"></label>
<button>Sign in</button>
</form>
