package bootdata

import (
	"bytes"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// include returns user data by which an instance fetches its boot data. Ignition gets a
// configuration that is replaced by the fetched one, whose hash it checks. Everything else is
// for cloud-init, which fetches once: it reads its own copy at later boots, when the object
// has gone.
func include(content []byte, link string) []byte {
	version := cloud.IgnitionVersion(content)
	if version == "" {
		return []byte("#include-once\n" + link + "\n")
	}
	sum := sha512.Sum512(content)
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // keeps the URL readable
	_ = encoder.Encode(map[string]any{"ignition": map[string]any{
		"version": version,
		"config": map[string]any{"replace": map[string]any{
			"source": link, "verification": map[string]any{"hash": "sha512-" + hex.EncodeToString(sum[:])},
		}},
	}}) // strings only, so it never fails
	return text.Bytes()
}
