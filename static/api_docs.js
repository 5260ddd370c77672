// Swagger UI over our own schema; a request that is tried here carries the page's CSRF token.
const place = document.getElementById("api");
SwaggerUIBundle({
  url: place.dataset.schema,
  domNode: place,
  deepLinking: true,
  docExpansion: "list",
  filter: true,
  validatorUrl: null,
  requestInterceptor: (request) => {
    if ((request.method || "GET") !== "GET") request.headers["X-CSRFToken"] = place.dataset.csrf;
    return request;
  },
});
