package simulator

import (
	"context"
	"crypto/hmac"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"
)

// Lifetimes of a token (MT1 §3.1).
const (
	testTokenLife       = 48 * time.Hour
	productionTokenLife = 24 * time.Hour
)

// loginTexts are MH's codes of authentication (MT2). The manuals print the codes and not the body that bears them: the
// member's name and the spelling are ours.
var loginTexts = map[int]string{100: "Usuario incorrecto", 101: "Contactar a soporte", 102: "No se pudo autenticar", 103: "Contraseña expirada",
	104: "Debe cambiar la contraseña", 105: "Cambio de contraseña requerido", 106: "Credenciales inválidas", 107: "Token inválido", 108: "Token requerido",
	109: "Error al generar el token", 110: "Tipo no válido", 111: "Parámetro no válido"}

// CheckPassword returns what a password of MH's API has wrong (MT2: 13 to 25 characters; letters, digits and others), nil
// for nothing. Only an issuer's own password is checked so: a wrong one at the login is wrong whatever its form.
func CheckPassword(password string) error {
	var letter, digit, other bool
	for _, r := range password {
		switch {
		case unicode.IsLetter(r):
			letter = true
		case unicode.IsDigit(r):
			digit = true
		default:
			other = true
		}
	}
	switch n := utf8.RuneCountInString(password); {
	case n < 13 || n > 25:
		return errors.New("the password of MH's API has not 13 to 25 characters")
	case !letter || !digit || !other:
		return errors.New("the password of MH's API lacks a letter, a digit or a special character")
	}
	return nil
}

type session struct {
	nit     string
	expires time.Time
}

type issuerKey struct{}

// holder is whose token an authenticated request bears.
func holder(r *http.Request) Issuer { return r.Context().Value(issuerKey{}).(Issuer) }

// login is POST /seguridad/auth: a form with user and pwd, errors over HTTP 200 (MT1 §4.1).
func (s *Simulator) login(w http.ResponseWriter, r *http.Request) {
	if !s.headed(w, r, "application/x-www-form-urlencoded") {
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 1<<16)
	if err := r.ParseForm(); err != nil {
		s.fault(w, r, http.StatusBadRequest, "Bad Request")
		return
	}
	if code := s.Hostilities().LoginCode; code != 0 {
		s.reply(w, r, http.StatusOK, map[string]string{"status": "ERROR", "error": "Unauthorized", "codigo": strconv.Itoa(code), "message": loginTexts[code]})
		return
	}
	user, password := r.PostForm.Get("user"), r.PostForm.Get("pwd")
	issuer, known := s.issuers[user]
	if !known {
		s.unauthorised(w, r, "Usuario no valido")
		return
	}
	if subtle.ConstantTimeCompare([]byte(password), []byte(issuer.Password)) != 1 {
		s.unauthorised(w, r, "Credenciales invalidas")
		return
	}
	s.reply(w, r, http.StatusOK, map[string]any{
		"status": "OK",
		"body": map[string]any{
			"user":  user,
			"token": "Bearer " + s.token(user),
			"rol": map[string]any{
				"nombre": "Usuario", "codigo": "ROLE_USER", "descripcion": nil, "rolSuperior": nil,
				"nivel": nil, "activo": nil, "permisos": nil,
			},
			"roles":     []string{"ROLE_USER"},
			"tokenType": "Bearer",
		},
	})
}

func (s *Simulator) unauthorised(w http.ResponseWriter, r *http.Request, message string) {
	s.reply(w, r, http.StatusOK, map[string]string{"status": "ERROR", "error": "Unauthorized", "message": message})
}

// token opens a session. The token has the looks of MH's JWT (HS512) and is remembered, not computed back: it dies
// with the process.
func (s *Simulator) token(nit string) string {
	now := s.now()
	life := testTokenLife
	if s.options.AllowProduction {
		life = productionTokenLife
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := uuid(s.rand)
	enc := base64.RawURLEncoding
	claims, err := json.Marshal(map[string]any{
		"sub": nit, "authorities": []string{"ROLE_USER"}, "jti": enc.EncodeToString(id[:]),
		"iat": now.Unix(), "exp": now.Add(life).Unix(),
	})
	if err != nil {
		panic("simulator: encoding claims: " + err.Error())
	}
	head := enc.EncodeToString([]byte(`{"alg":"HS512"}`)) + "." + enc.EncodeToString(claims)
	secret := uuid(s.rand)
	mac := hmac.New(sha512.New, secret[:])
	mac.Write([]byte(head))
	token := head + "." + enc.EncodeToString(mac.Sum(nil))
	for old, open := range s.sessions {
		if !now.Before(open.expires) {
			delete(s.sessions, old)
		}
	}
	s.sessions[token] = session{nit: nit, expires: now.Add(life)}
	return token
}

// authenticated lets a request in whose Authorization is exactly the token as login gave it, "Bearer " included: a
// second "Bearer" is a 401, as observed.
func (s *Simulator) authenticated(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		nit, ok := s.session(r.Header.Get("Authorization"))
		if !ok || s.take(func(c *Chaos) *int { return &c.ExpiredTokens }) {
			s.fault(w, r, http.StatusUnauthorized, "Unauthorized")
			return
		}
		if !s.headed(w, r, "application/json") {
			return
		}
		next(w, r.WithContext(context.WithValue(r.Context(), issuerKey{}, s.issuers[nit])))
	}
}

func (s *Simulator) session(authorization string) (nit string, ok bool) {
	const scheme = "Bearer "
	if len(authorization) <= len(scheme) || authorization[:len(scheme)] != scheme {
		return "", false
	}
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	open, known := s.sessions[authorization[len(scheme):]]
	return open.nit, known && now.Before(open.expires)
}

// headed holds a request to the headers that MT1 §4 lists as required for every service.
func (s *Simulator) headed(w http.ResponseWriter, r *http.Request, kind string) bool {
	if r.UserAgent() == "" {
		s.fault(w, r, http.StatusUnauthorized, "Unauthorized")
		return false
	}
	if r.Method != http.MethodPost { // nothing is sent
		return true
	}
	if got, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || got != kind {
		s.fault(w, r, http.StatusUnsupportedMediaType, "Content type '"+r.Header.Get("Content-Type")+"' not supported")
		return false
	}
	return true
}
