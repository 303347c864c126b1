package bootstrap_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/bootstrap"
)

func TestHasPrivateKey(t *testing.T) {
	t.Parallel()
	const key = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\n"
	encoded := base64.StdEncoding.EncodeToString([]byte(key))
	zip := func(text string) string {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, _ = w.Write([]byte(text))
		_ = w.Close()
		return out.String()
	}
	files := func(encoding, content string) string {
		quoted, _ := json.Marshal(content)
		return "## template: jinja\n#cloud-config\nwrite_files:\n- path: /a\n- path: /k\n  encoding: " + encoding + "\n" +
			"  content: " + string(quoted) + "\nruncmd:\n- 'kubeadm init {{ ds.meta_data.hostname }}'\n"
	}
	ignition := func(source string) string {
		text, _ := json.Marshal(map[string]any{"storage": map[string]any{"files": []any{
			map[string]any{"contents": map[string]any{"source": source}},
		}}})
		return string(text)
	}
	for name, tc := range map[string]struct {
		data string
		want bool
	}{
		"Empty":            {"", false},
		"Worker":           {"#cloud-config\nruncmd: [kubeadm join]\n", false},
		"Certificate":      {files("plain", "-----BEGIN CERTIFICATE-----"), false},
		"PublicKey":        {files("plain", "-----BEGIN PUBLIC KEY-----"), false},
		"Script":           {"#!/bin/sh\ncat <<EOF\n" + key + "EOF\n", true},
		"Text":             {files("plain", key), true},
		"Base64":           {files("b64", encoded), true},
		"Wrapped":          {files("b64", strings.ReplaceAll(encoded, "J", "J\n")), true},
		"GzipBase64":       {files("gz+b64", base64.StdEncoding.EncodeToString([]byte(zip(key)))), true},
		"Packed":           {zip(files("b64", encoded)), true},
		"IgnitionText":     {ignition("data:," + url.PathEscape(key)), true},
		"IgnitionBase64":   {ignition("data:text/plain;charset=utf-8;base64," + encoded), true},
		"IgnitionGzip":     {ignition("data:;base64," + base64.StdEncoding.EncodeToString([]byte(zip(key)))), true},
		"IgnitionHarmless": {ignition("data:,hello"), false},
		"NoDocument":       {"{[", false},
		"HalfGzip":         {zip(key)[:20], false},
	} {
		if got := bootstrap.HasPrivateKey([]byte(tc.data)); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

func FuzzHasPrivateKey(f *testing.F) {
	f.Add([]byte("#cloud-config\nwrite_files:\n- content: data:;base64,AA==\n"))
	f.Fuzz(func(_ *testing.T, data []byte) { bootstrap.HasPrivateKey(data) })
}
