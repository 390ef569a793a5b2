% rebase("base.tpl", tab="Results")
<p>Captures are being analysed for the first time: {{progress}}. This page loads again by itself.</p>
