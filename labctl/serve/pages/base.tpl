<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{title}} - labctl</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/static/style.css">
% for script in get("scripts", []):
<script src="/static/{{script}}" defer></script>
% end
</head>
<body>
<header>
<p class="crumbs"><a href="/">Campaigns</a></p>
<h1>{{title}}</h1>
% if get("emulated"):
<p class="emulated">{{emulated}}</p>
% end
% if get("book"):
<nav>
% for address, text in (("", "Live"), ("items", "Items"), ("statistics", "Statistics"), ("drift", "Drift"), ("results", "Results")):
<a href="/c/{{book.key}}/{{address}}"\\
% if get("tab") == text:
 aria-current="page"\\
% end
>{{text}}</a>
% end
</nav>
% end
</header>
<main>
{{!base}}
</main>
<footer>labctl {{version}}</footer>
</body>
</html>
