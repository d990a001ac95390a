package setup

import (
	"dtegate/cmd/dtectl/operator"
	"dtegate/cmd/dted/config"
)

// NewToken adds a till's token to the token file.
func NewToken(cfg *config.Config, point int64, name string, granted []string) (made *config.Token, token string, err error) {
	err = config.EditTokens(cfg.Tokens, func(f *config.TokenFile) error {
		made, token, err = f.Add(cfg, name, point, granted, operator.Who(), cfg.Now())
		return err
	})
	return made, token, err
}
