package bootdata

import (
	"bytes"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
)

// include returns user data by which an instance fetches its boot data. Ignition gets a
// configuration that is replaced by the fetched one, whose hash it checks. Everything else is
// for cloud-init, which fetches once: it reads its own copy at later boots, when the object
// has gone.
func include(content []byte, link string) []byte {
	version := ignitionVersion(content)
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

// ignitionVersion returns the version of the specification that an Ignition configuration
// follows; empty if content is none.
func ignitionVersion(content []byte) string {
	var c struct {
		Ignition struct {
			Version string `json:"version"`
		} `json:"ignition"`
	}
	if json.Unmarshal(content, &c) != nil {
		return ""
	}
	return c.Ignition.Version
}
