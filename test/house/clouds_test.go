package house

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// notDrivers are folders of cloud/ that are no cloud.
var notDrivers = []string{"mcmdriver", "testing", "wrap"}

// A driver is done when it has the files that every driver has, passes the
// conformance kit, and is documented. The simulated cloud is a cloud first and a
// driver second, so its files are its own.
func TestDriversAreComplete(t *testing.T) {
	t.Parallel()
	for _, driver := range drivers(t) {
		if !runsTheKit(t, "cloud/"+driver) {
			t.Errorf("cloud/%s: no test calls cloudtest.Run or RunAll", driver)
		}
		if driver == "sim" {
			continue
		}
		for _, file := range []string{
			"cloud/X/doc.go", "cloud/X/provider.go", "cloud/X/driver.go", "cloud/X/client.go", "cloud/X/spec.go",
			"cloud/X/validate.go", "cloud/X/convert.go", "cloud/X/errors.go", "cloud/X/driver_test.go",
			"docs/clouds/X.md", "config/samples/X",
		} {
			file = strings.ReplaceAll(file, "X", driver)
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("cloud/%s: %s is not there", driver, file)
			}
		}
	}
}

// TestMatrixListsEveryCloud: docs/clouds/conformance.md says of every cloud, and
// of no other, how it did, and no case failed or was left out.
func TestMatrixListsEveryCloud(t *testing.T) {
	t.Parallel()
	const page = "docs/clouds/conformance.md"
	rows := map[string]string{}
	for _, match := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (.*) \\|$").FindAllStringSubmatch(read(t, page), -1) {
		rows[strings.ToLower(match[1])] = match[2]
	}
	for _, driver := range drivers(t) {
		cells := strings.Split(rows[driver], " | ")
		delete(rows, driver)
		known := []string{"ok", "part", "–"}
		if slices.ContainsFunc(cells, func(cell string) bool { return !slices.Contains(known, cell) }) {
			t.Errorf("%s: cloud/%s did not keep all rules, %q; run make conformance CLOUD=%[2]s", page, driver, cells)
		}
	}
	for row := range rows {
		t.Errorf("%s: there is no cloud/%s", page, row)
	}
}

// drivers are the clouds on the one list. A folder that is not on it is still
// being built.
func drivers(t *testing.T) []string {
	t.Helper()
	list := read(t, "cmd/clouds/clouds.go")
	var found []string
	for _, name := range files(t, under("cloud", isSource)) {
		rest := strings.TrimPrefix(path.Dir(name), "cloud")
		driver, _, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
		if driver != "" && strings.Contains(list, "/cloud/"+driver+`"`) && !slices.Contains(notDrivers, driver) &&
			!slices.Contains(found, driver) {
			found = append(found, driver)
		}
	}
	return found
}

func runsTheKit(t *testing.T, dir string) bool {
	t.Helper()
	return slices.ContainsFunc(files(t, under(dir, isTest)), func(name string) bool {
		return regexp.MustCompile(`cloudtest\.Run(All)?\(`).MatchString(read(t, name))
	})
}
