package pdf

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	_ "image/gif" // decoders of the logo
	_ "image/jpeg"
	"image/png"
)

// logo is a picture in the one form that fpdf embeds as it comes: an opaque PNG, 8 bits a channel. Anything else it
// would unpack anew for each document.
type logo struct {
	png  []byte
	w, h float64 // pixels
}

func readLogo(data []byte) (*logo, error) {
	const most, pixels = 512 << 10, 2000
	if len(data) > most {
		return nil, fmt.Errorf("%d bytes, at most %d", len(data), most)
	}
	c, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if c.Width < 1 || c.Height < 1 || c.Width > pixels || c.Height > pixels {
		return nil, fmt.Errorf("%d × %d pixels, at most %d either way", c.Width, c.Height, pixels)
	}
	src, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	flat := image.NewRGBA(image.Rect(0, 0, c.Width, c.Height))
	draw.Draw(flat, flat.Bounds(), image.NewUniform(color.White), image.Point{}, draw.Src)
	draw.Draw(flat, flat.Bounds(), src, src.Bounds().Min, draw.Over)
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, flat); err != nil {
		return nil, err
	}
	return &logo{out.Bytes(), float64(c.Width), float64(c.Height)}, nil
}

// fit is the largest size of the logo within a box.
func (l *logo) fit(w, h float64) (float64, float64) {
	k := min(w/l.w, h/l.h)
	return l.w * k, l.h * k
}
