package s3test

import (
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
)

// Guest returns the boot data of an instance that boots with this user data: what that makes
// cloud-init or Ignition fetch now, or itself where it names nothing to fetch.
func (s *Store) Guest(userData []byte) ([]byte, error) {
	text := string(userData)
	if lines := strings.Split(strings.TrimSpace(text), "\n"); strings.HasPrefix(text, "#include") {
		const two = 2 // what to do, and the URL
		if len(lines) != two || lines[0] != "#include-once" {
			return nil, fmt.Errorf("user data is no include of one URL: %d lines", len(lines))
		}
		return s.fetch(lines[1])
	}
	var c struct {
		Ignition struct {
			Config struct {
				Replace struct {
					Source       string
					Verification struct{ Hash string }
				}
			}
		}
	}
	if isJSON := json.Unmarshal(userData, &c) == nil; !isJSON || c.Ignition.Config.Replace.Source == "" {
		return userData, nil
	}
	content, err := s.fetch(c.Ignition.Config.Replace.Source)
	if err != nil {
		return nil, err
	}
	sum := sha512.Sum512(content)
	if want := c.Ignition.Config.Replace.Verification.Hash; want != "sha512-"+hex.EncodeToString(sum[:]) {
		return nil, fmt.Errorf("the hash of the content is not %q", want)
	}
	return content, nil
}

// fetch gets a URL as anybody can who knows it.
func (s *Store) fetch(link string) ([]byte, error) {
	r, err := http.NewRequest(http.MethodGet, link, http.NoBody) //nolint:noctx // nothing is waited for
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", "Cloud-Init/24.4")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		return nil, fmt.Errorf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.Bytes(), nil
}
