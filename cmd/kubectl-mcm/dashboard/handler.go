package dashboard

import (
	"encoding/json"
	"net/http"
	"net/url"
)

// newHandler serves the page and its data.
func newHandler(s *source) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/{$}", asset("text/html; charset=utf-8", servedPage()))
	mux.Handle("/app.js", asset("text/javascript; charset=utf-8", script()))
	mux.Handle("/app.css", asset("text/css; charset=utf-8", style))
	mux.HandleFunc("/api/state", s.serveState)
	for path, question := range map[string]func(*snapshot, url.Values) (any, error){
		"/api/tree": (*snapshot).treeOf, "/api/top": (*snapshot).topOf, "/api/why": (*snapshot).why,
		"/api/timeline": (*snapshot).timeline,
	} {
		mux.Handle(path, s.answering(question))
	}
	return guarded(mux)
}

func asset(kind, text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write([]byte(text))
	})
}

// serveState answers what the page asks first. A reading that failed is in the answer, with the state before it.
func (s *source) serveState(w http.ResponseWriter, r *http.Request) {
	found, err := s.current(r.Context())
	if found == nil {
		unavailable(w, err)
		return
	}
	answer(w, found.about(err))
}

// answering answers a question about the newest state.
func (s *source) answering(question func(*snapshot, url.Values) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		found, err := s.current(r.Context())
		if found == nil {
			unavailable(w, err)
			return
		}
		found.using.Lock()
		defer found.using.Unlock()
		content, err := question(found, r.URL.Query())
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		answer(w, content)
	})
}

func unavailable(w http.ResponseWriter, err error) {
	http.Error(w, "read clusters: "+err.Error(), http.StatusServiceUnavailable)
}

func answer(w http.ResponseWriter, content any) {
	text, err := json.Marshal(content)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text)
}
