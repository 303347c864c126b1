package browser

import (
	"bytes"
	"image/png"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const page = `<!DOCTYPE html><title>t</title><style>:root{color-scheme:light dark}</style><p id=p>before</p><script>
const dark = matchMedia("(prefers-color-scheme: dark)").matches;
setTimeout(() => { p.textContent = "after " + (1 + 1) + " dark=" + dark; }, 1000);
</script>`

func serve(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(page))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestDOM: scripts and timers of a page have run, and pages see which colours are preferred.
func TestDOM(t *testing.T) {
	t.Parallel()
	Find(t)
	url := serve(t)
	for want, flags := range map[string][]string{"after 2 dark=false": nil, "after 2 dark=true": {Dark}} {
		if got := DOM(t, url, flags...); !strings.Contains(got, want) {
			t.Errorf("the page is no %q:\n%s", want, got)
		}
	}
}

// TestScreenshot: a picture has the size that was asked for.
func TestScreenshot(t *testing.T) {
	t.Parallel()
	Find(t)
	picture, err := png.Decode(bytes.NewReader(Screenshot(t, serve(t), 640, 480)))
	if err != nil {
		t.Fatal(err)
	}
	if size := picture.Bounds().Size(); size.X != 640 || size.Y != 480 {
		t.Errorf("a picture of %s, want (640,480)", size)
	}
}
