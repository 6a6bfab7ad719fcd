/*
 * Shows the list of posts.
 *
 * TODO: load more posts while scrolling
 */
export const render = (posts) => posts.map((post) => `<li>TODO ${post.title}</li>`).join('');
