package house

import (
	"regexp"
	"strings"
	"testing"
)

// wholeSecrets are calls after which a cache would keep whole Secrets, all of them.
var wholeSecrets = regexp.MustCompile(
	`(\bWatches|\bOwns|\bFor|source\.Kind|GetInformer)\([^()]*&corev1\.Secret\{\}|SecretList\{`)

// TestNoCacheKeepsSecrets: controllers watch the metadata of Secrets. They read the one
// whose content they need.
func TestNoCacheKeepsSecrets(t *testing.T) {
	t.Parallel()
	for _, name := range append(files(t, under("controllers", isSource)), files(t, under("manager", isSource))...) {
		for line := range strings.Lines(read(t, name)) {
			if wholeSecrets.MatchString(line) && !strings.Contains(line, "builder.OnlyMetadata") {
				t.Errorf("%s: %s: use WatchesMetadata, builder.OnlyMetadata or a live read", name, strings.TrimSpace(line))
			}
		}
	}
}
