package bootstrap

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"net/url"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// privateKey ends the first line of every private key in PEM.
var privateKey = []byte("PRIVATE KEY-----")

// HasPrivateKey reports whether boot data has a private key in PEM: as text, or in a value of
// cloud-config or ignition that is encoded in base64, gzip, both, or as a data URL. It looks
// into documents of YAML and JSON, packed or not, and never fails: what it cannot read has none.
func HasPrivateKey(data []byte) bool {
	data = unpack(data)
	if bytes.Contains(data, privateKey) {
		return true
	}
	var document any
	if yaml.Unmarshal(data, &document) != nil {
		return false
	}
	return hasKey(document)
}

// hasKey reports whether a value of a document has a private key.
func hasKey(value any) bool {
	switch v := value.(type) {
	case string:
		return bytes.Contains(decode(v), privateKey)
	case []any:
		return slices.ContainsFunc(v, hasKey)
	case map[string]any:
		for _, item := range v {
			if hasKey(item) {
				return true
			}
		}
	}
	return false
}

// decode returns what a value stands for.
func decode(value string) []byte {
	if rest, ok := strings.CutPrefix(value, "data:"); ok {
		kind, content, _ := strings.Cut(rest, ",")
		text, err := url.PathUnescape(content)
		if err != nil {
			return nil
		}
		if !strings.HasSuffix(kind, ";base64") {
			return unpack([]byte(text))
		}
		value = text
	}
	compact := strings.Join(strings.Fields(value), "")
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding} {
		if plain, err := encoding.DecodeString(compact); err == nil {
			return unpack(plain)
		}
	}
	return []byte(value)
}

// unpack returns data, decompressed if it is in gzip.
func unpack(data []byte) []byte {
	const most = 4 << 20
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return data
	}
	plain, err := io.ReadAll(io.LimitReader(r, most))
	if err != nil {
		return data
	}
	return plain
}
