// Command dashboards writes the Grafana dashboards into a folder, one file each. make generate
// has it write those of config/monitoring.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	out := flag.String("out", "config/monitoring/dashboards", "folder to write to")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
}

// run writes all dashboards.
func run(out string) error {
	for _, d := range all() {
		text, err := d.file()
		if err != nil {
			return err
		}
		//nolint:gosec // a manifest is for everybody to read
		if err := os.WriteFile(filepath.Join(out, d.UID+".json"), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func all() []dashboard { return []dashboard{fleet(), pools(), clouds(), managers()} }

// file is the dashboard as Grafana imports it.
func (d dashboard) file() ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(d)
	return text.Bytes(), err
}
