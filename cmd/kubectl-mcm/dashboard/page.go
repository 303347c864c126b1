package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"strings"
)

// The parts of the page. The script is one, of several files.
var (
	//go:embed page/index.html
	index string
	//go:embed page/app.css
	style string
	//go:embed page/*.js
	scripts embed.FS
)

// scriptFiles are in the order in which they use each other.
var scriptFiles = []string{
	"base.js", "data.js", "finding.js", "fleet.js", "pool.js", "timeline.js", "object.js", "app.js",
}

// script is the script of the page.
func script() string {
	var all strings.Builder
	all.WriteString("\"use strict\";\n(() => {\n")
	for _, name := range scriptFiles {
		text, err := scripts.ReadFile("page/" + name)
		if err != nil {
			panic(err) // it was not embedded
		}
		all.Write(text)
	}
	all.WriteString("})();\n")
	return all.String()
}

// servedPage is the page that asks for everything else.
func servedPage() string {
	return filled("", `<link rel="stylesheet" href="/app.css">`, `<script src="/app.js"></script>`)
}

// filled is the page with its three parts.
func filled(meta, style, script string) string {
	return strings.NewReplacer("<!--policy-->", meta, "<!--style-->", style, "<!--script-->", script).Replace(index)
}

// hash is a source of a policy: a text that may be in the page.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
